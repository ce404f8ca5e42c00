# A driver of Perl's Beanstalk::Client (docs/client-drivers.md); PERL5LIB must find the library.
use strict;
use warnings;
use Beanstalk::Client;

my $client;

sub bytes { pack 'H*', substr shift, 1 }
sub hex_of { my $text = shift // ''; utf8::encode($text) if utf8::is_utf8($text); 'x' . unpack 'H*', $text }
sub failed { my $text = $client->error // ''; $text =~ s/\s+/ /g; "error $text" }
sub done { defined shift() ? 'ok' : failed() }
sub value { my $value = shift; defined $value ? "ok $value" : failed() }
sub job { my $job = shift; $job ? 'ok ' . $job->id . ' ' . hex_of($job->data) : failed() }
sub put { my $job = shift; $job ? ($job->buried ? 'buried ' : 'ok ') . $job->id : failed() }
sub names { @_ && defined $_[0] ? join ' ', 'ok', map { hex_of($_) } @_ : failed() }
sub table { my $stats = shift; $stats ? names(%$stats) : failed() }

my %operations = (
    'connect' => sub {
        $client = Beanstalk::Client->new({server => "$_[0]:$_[1]", connect_timeout => 1});
        $client->connect ? 'ok' : failed();
    },
    'put' => sub {
        put($client->put({priority => $_[0], delay => $_[1], ttr => $_[2], data => bytes($_[3])}));
    },
    'reserve' => sub { job($client->reserve) },
    'reserve-with-timeout' => sub { job($client->reserve($_[0])) },
    'peek' => sub { job($client->peek($_[0])) },
    'peek-ready' => sub { job($client->peek_ready) },
    'peek-delayed' => sub { job($client->peek_delayed) },
    'peek-buried' => sub { job($client->peek_buried) },
    'use' => sub { done($client->use(bytes($_[0]))) },
    'delete' => sub { done($client->delete($_[0])) },
    'release' => sub { done($client->release($_[0], {priority => $_[1], delay => $_[2]})) },
    'bury' => sub { done($client->bury($_[0], {priority => $_[1]})) },
    'touch' => sub { done($client->touch($_[0])) },
    'kick-job' => sub { done($client->kick_job($_[0])) },
    'pause-tube' => sub { done($client->pause_tube(bytes($_[0]), $_[1])) },
    'watch' => sub { value($client->watch(bytes($_[0]))) },
    'ignore' => sub { value($client->ignore(bytes($_[0]))) },
    'kick' => sub { value($client->kick($_[0])) },
    'stats' => sub { table($client->stats) },
    'stats-job' => sub { table($client->stats_job($_[0])) },
    'stats-tube' => sub { table($client->stats_tube(bytes($_[0]))) },
    'list-tubes' => sub { names($client->list_tubes) },
    'list-tubes-watched' => sub { names($client->list_tubes_watched) },
    'list-tube-used' => sub { names($client->list_tube_used) },
);

$| = 1;
while (my $line = <STDIN>) {
    my ($number, $operation, @arguments) = split ' ', $line;
    my $answer = eval { ($operations{$operation} || sub { 'unsupported' })->(@arguments) };
    ($answer = "error $@") =~ s/\s+/ /g unless defined $answer;
    print "\@beanstalk $number $answer\n";
}
