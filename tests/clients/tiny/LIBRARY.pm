package LIBRARY;    # A tiny client, for the template of a driver.
use strict;
use warnings;
use IO::Socket::INET;

sub new { bless {socket => IO::Socket::INET->new(PeerAddr => $_[1], PeerPort => $_[2])}, $_[0] }

sub call {
    my ($self, $expected, $request) = @_;
    $self->{socket}->print("$request\r\n");
    my ($word, @values) = split ' ', $self->{socket}->getline;
    die "$word\n" if $word ne $expected;
    return @values ? @values : 1;
}

sub put {
    my ($self, $body, $pri, $delay, $ttr) = @_;
    my $size = length $body;
    return ($self->call('INSERTED', "put $pri $delay $ttr $size\r\n$body"))[0];
}

sub reserve {
    my $self = shift;
    my ($id, $size) = $self->call('RESERVED', 'reserve');
    $self->{socket}->read(my $body, $size + 2);
    return {id => $id, body => substr $body, 0, $size};
}

sub delete { $_[0]->call('DELETED', "delete $_[1]") }

1;
