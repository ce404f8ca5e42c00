"""A small client library that makes no mistake we know of, and its driver."""

import re
import select
import socket
import sys

TIMEOUT = 3.0
MAX_LINE = 1024
MAX_BODY = 1 << 26
NAME = re.compile(rb"[A-Za-z0-9+/;.$_()][A-Za-z0-9+/;.$_()-]{0,199}")


class Refused(Exception):
    pass


class Lost(Exception):
    pass


class Client:
    def __init__(self, host, port):
        self.socket = socket.create_connection((host, port), TIMEOUT)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""

    def fill(self, wait=TIMEOUT):
        self.socket.settimeout(wait)
        try:
            data = self.socket.recv(65536)
        except OSError as error:
            raise Lost(f"no reply: {error}") from None
        if not data:
            raise Lost("the connection ended")
        self.buffer += data

    def line(self, wait):
        while b"\r\n" not in self.buffer:
            if len(self.buffer) > MAX_LINE:
                raise Lost("a long line")
            self.fill(wait)
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line

    def body(self, size):
        count = decimal(size)
        if count > MAX_BODY:
            raise Lost("a large body")
        while len(self.buffer) < count + 2:
            self.fill()
        if self.buffer[count : count + 2] != b"\r\n":
            raise Lost("no line end after a body")
        found, self.buffer = self.buffer[:count], self.buffer[count + 2 :]
        return found

    def call(self, command, *expected, wait=TIMEOUT):
        if self.socket is None:
            raise Lost("there is no connection")
        try:
            if self.buffer or select.select([self.socket], [], [], 0)[0]:
                raise Lost("a reply to nothing")
            self.socket.sendall(command)
            word, *values = self.line(wait).split(b" ")
            if word in (b"RESERVED", b"FOUND", b"OK") and word in expected:
                values[-1:] = [self.body(values[-1])]
        except (Lost, OSError, IndexError):
            self.close()
            raise Lost("the connection is of no use") from None
        if word not in expected:
            if word not in ERRORS:
                self.close()
            raise Refused(word.decode("ascii", "replace"))
        return [word, *values]

    def close(self):
        if self.socket is not None:
            self.socket.close()
        self.socket = None


ERRORS = (
    b"NOT_FOUND", b"TIMED_OUT", b"DEADLINE_SOON", b"NOT_IGNORED", b"BURIED", b"DRAINING",
    b"JOB_TOO_BIG", b"OUT_OF_MEMORY", b"INTERNAL_ERROR", b"BAD_FORMAT", b"UNKNOWN_COMMAND",
    b"EXPECTED_CRLF",
)  # fmt: skip


def decimal(word):
    if not word.isdigit():
        raise Lost("no number")
    return int(word)


def limited(word, limit):
    if not re.fullmatch("[0-9]+", word) or int(word) > limit:
        raise Refused("number")
    return word.encode()


def u32(word):
    return limited(word, 2**32 - 1)


def u64(word):
    return limited(word, 2**64 - 1)


def tube(word):
    name = bytes.fromhex(word[1:])
    if not NAME.fullmatch(name):
        raise Refused("name")
    return name


def hexed(data):
    return "x" + data.hex()


def job(reply):
    return [decimal(reply[1]), hexed(reply[2])]


def put(pri, delay, ttr, word):
    body = bytes.fromhex(word[1:])
    line = b"put %b %b %b %d\r\n" % (u32(pri), u32(delay), u32(ttr), len(body))
    return [decimal(client.call(line + body + b"\r\n", b"INSERTED")[1])]


def reserve():
    return job(client.call(b"reserve\r\n", b"RESERVED", wait=None))


def reserve_with_timeout(seconds):
    wait = int(u32(seconds)) + TIMEOUT
    line = b"reserve-with-timeout %b\r\n" % u32(seconds)
    return job(client.call(line, b"RESERVED", wait=wait))


def ignore(word):
    return [decimal(client.call(b"ignore %b\r\n" % tube(word), b"WATCHING")[1])]


def found(command):
    return job(client.call(command, b"FOUND"))


def unquoted(value):
    return value[1:-1] if len(value) > 1 and value[:1] == value[-1:] in (b'"', b"'") else value


def stats(command):
    words = []
    for line in client.call(command, b"OK")[1].split(b"\n"):
        key, colon, value = line.partition(b": ")
        if colon:
            words += [hexed(key), hexed(unquoted(value))]
    return words


def listed(command):
    lines = client.call(command, b"OK")[1].split(b"\n")
    return [hexed(unquoted(line[2:])) for line in lines if line.startswith(b"- ")]


def connect(host, port):
    global client
    client = Client(host, int(port))
    return []


def done(command, word):
    client.call(command, word)
    return []


def quit():
    client.socket.sendall(b"quit\r\n")
    client.close()
    return []


OPERATIONS = {
    "connect": connect,
    "put": put,
    "use": lambda t: done(b"use %b\r\n" % tube(t), b"USING"),
    "reserve": reserve,
    "reserve-with-timeout": reserve_with_timeout,
    "reserve-job": lambda id: job(client.call(b"reserve-job %b\r\n" % u64(id), b"RESERVED")),
    "delete": lambda id: done(b"delete %b\r\n" % u64(id), b"DELETED"),
    "release": lambda id, p, d: done(
        b"release %b %b %b\r\n" % (u64(id), u32(p), u32(d)), b"RELEASED"
    ),
    "bury": lambda id, p: done(b"bury %b %b\r\n" % (u64(id), u32(p)), b"BURIED"),
    "touch": lambda id: done(b"touch %b\r\n" % u64(id), b"TOUCHED"),
    "watch": lambda t: [decimal(client.call(b"watch %b\r\n" % tube(t), b"WATCHING")[1])],
    "ignore": ignore,
    "peek": lambda id: found(b"peek %b\r\n" % u64(id)),
    "peek-ready": lambda: found(b"peek-ready\r\n"),
    "peek-delayed": lambda: found(b"peek-delayed\r\n"),
    "peek-buried": lambda: found(b"peek-buried\r\n"),
    "kick": lambda bound: [decimal(client.call(b"kick %b\r\n" % u32(bound), b"KICKED")[1])],
    "kick-job": lambda id: done(b"kick-job %b\r\n" % u64(id), b"KICKED"),
    "stats-job": lambda id: stats(b"stats-job %b\r\n" % u64(id)),
    "stats-tube": lambda t: stats(b"stats-tube %b\r\n" % tube(t)),
    "stats": lambda: stats(b"stats\r\n"),
    "list-tubes": lambda: listed(b"list-tubes\r\n"),
    "list-tube-used": lambda: [hexed(client.call(b"list-tube-used\r\n", b"USING")[1])],
    "list-tubes-watched": lambda: listed(b"list-tubes-watched\r\n"),
    "quit": quit,
    "pause-tube": lambda t, d: done(b"pause-tube %b %b\r\n" % (tube(t), u32(d)), b"PAUSED"),
}
client = None
for question in sys.stdin:
    count, name, *words = question.split()
    try:
        answer = "unsupported"
        if name in OPERATIONS:
            answer = " ".join(map(str, ["ok", *OPERATIONS[name](*words)]))
    except (Refused, Lost, OSError) as error:
        answer = f"error {type(error).__name__} {error}"
    print("@beanstalk", count, answer, flush=True)
