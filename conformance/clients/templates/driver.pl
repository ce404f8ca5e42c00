# A driver for a client library in Perl: replace LIBRARY and its calls.
use strict;
use warnings;
use LIBRARY;

my $client;

sub bytes { pack 'H*', substr shift, 1 }
sub hex_of { 'x' . unpack 'H*', shift }

my %operations = (
    'connect' => sub { $client = LIBRARY->new($_[0], $_[1]); 'ok' },
    'put' => sub { 'ok ' . $client->put(bytes($_[3]), $_[0], $_[1], $_[2]) },
    'reserve' => sub { my $job = $client->reserve; "ok $job->{id} " . hex_of($job->{body}) },
    'delete' => sub { $client->delete($_[0]) ? 'ok' : 'false' },
);

$| = 1;
while (my $line = <STDIN>) {
    my ($number, $name, @words) = split ' ', $line;
    my $answer = eval { ($operations{$name} || sub { 'unsupported' })->(@words) };
    ($answer = "error $@") =~ s/\s+/ /g unless defined $answer;
    print "\@beanstalk $number $answer\n";
}
