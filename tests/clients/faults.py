"""Faulty clients: each is the correct one with one text replaced, and breaks one requirement."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

SOURCE = (Path(__file__).parent / "driver.py").read_text(encoding="utf-8")
SENT = '        if self.socket is None:\n            raise Lost("there is no connection")\n'
"""The place where a command is about to be sent."""
READ = "        if word not in expected:\n"
"""The place where a reply is read."""


class Faulty(NamedTuple):
    """A mistake: the requirement that it breaks, and texts that take the places of others.

    ``also``: requirements that nobody can meet who breaks this one.
    """

    slug: str
    old: str
    new: str
    more: tuple[tuple[str, str], ...] = ()
    also: tuple[str, ...] = ()

    def source(self) -> str:
        """Return the program of the faulty client."""
        source = SOURCE
        for old, new in ((self.old, self.new), *self.more):
            assert SOURCE.count(old) == 1, (self, old)
            source = source.replace(old, new)
        return source


def _blank(verb: str) -> Faulty:
    """Return a client that sends a command with a blank at its end."""
    code = f"        if command.startswith(b'{verb}'):\n"
    code += "            command = command.replace(b'\\r\\n', b' \\r\\n')\n"
    return Faulty(f"send.{verb}", SENT, code + SENT)


def _blind(slug: str, verb: str, word: str) -> Faulty:
    """Return a client that takes an error for success."""
    code = f"        if command.startswith(b'{verb}') and word == b'{word}':\n"
    code += "            return [word, b'1', b'']\n"
    return Faulty(f"reply.{slug}", READ, code + READ)


def _wrong(slug: str, verb: str, value: str) -> Faulty:
    """Return a client that reports another number, or a failure, after a command's success."""
    code = f"        if command.startswith(b'{verb}') and values == [b'{value}']:\n"
    code += "            values = [b'1']\n"
    return Faulty(f"reply.{slug}", READ, code + READ)


def _deaf(slug: str, verb: str, word: str) -> Faulty:
    """Return a client that does not know the success of a command that the case scripts."""
    code = f"        if command.startswith(b'{verb} ') and word == b'{word}':\n"
    code += "            raise Refused('unknown')\n"
    return Faulty(f"reply.{slug}", READ, code + READ)


def _sent(slug: str, condition: str, change: str) -> Faulty:
    code = f"        if {condition}:\n            command = {change}\n"
    return Faulty(slug, SENT, code + SENT)


def _body(slug: str, old: str, new: str) -> Faulty:
    """Return a client that changes bodies that it gets."""
    place = "        found, self.buffer = self.buffer[:count], self.buffer[count + 2 :]\n"
    return Faulty(slug, place, place + f"        found = {new} if {old} in found else found\n")


_CHECK = "    if not NAME.fullmatch(name):\n"
_LIMIT = '    if not re.fullmatch("[0-9]+", word) or int(word) > limit:\n'
_PAIR = "            words += [hexed(key), hexed(unquoted(value))]\n"
_ITEM = '    return [hexed(unquoted(line[2:])) for line in lines if line.startswith(b"- ")]\n'


def _name(slug: str, accepted: str) -> Faulty:
    return Faulty(
        f"refuse.name-{slug}", _CHECK, f"    if not NAME.fullmatch(name) and not ({accepted}):\n"
    )


def _stat(slug: str, change: str) -> Faulty:
    return Faulty(f"stats.{slug}", _PAIR, f"            {change}\n{_PAIR}")


_CHECKED = "            if self.buffer or select.select([self.socket], [], [], 0)[0]:\n"
_UNKNOWN = "            if word not in ERRORS:\n"
_LATE = (
    (_CHECKED, _CHECKED.replace("if self", "if not self.late and (self").replace("]:", "]):")),
    (_UNKNOWN, _UNKNOWN.replace("if word", "if not self.late and word")),
    ('        self.buffer = b""\n', '        self.buffer = b""\n        self.late = False\n'),
)
"""A client that goes on with its connection after a timeout, and takes what comes for a reply."""


def _late(slug: str, place: str, call: str) -> Faulty:
    """Return a client that gives up after a second where a reply is late, and goes on."""
    code = f"            try:\n                {call}\n            except Lost as error:\n"
    code += "                if 'timed out' not in str(error):\n                    raise\n"
    code += "                self.late = True\n                raise Refused('late') from None\n"
    return Faulty(slug, place, code, _LATE)


def _forgetful(slug: str, command: bytes, word: bytes) -> Faulty:
    """Return a client that connects again by itself, and restores nothing but this."""
    old = "            self.close()\n            raise Lost("
    new = "            self.close()\n            if not self.again:\n"
    new += "                self.__init__(*self.address)\n                self.again = True\n"
    new += f"                self.call({command!r}, {word!r})\n            raise Lost("
    made = '        self.buffer = b""\n'
    more = made + "        self.address, self.again = (host, port), False\n"
    return Faulty(slug, old, new, ((made, more),))


def _read(slug: str, condition: str, change: str) -> Faulty:
    """Return a client that does something else with some replies."""
    return Faulty(slug, READ, f"        if {condition}:\n            {change}\n{READ}")


def _behind(word: str, verb: str) -> Faulty:
    """Return a client that mixes up replies after an error."""
    code = f"        if command.startswith(b'{verb}') and word == b'{word}':\n"
    code += "            self.behind = True\n"
    code += "        if getattr(self, 'behind', False) and word == b'INSERTED':\n"
    code += "            values = [b'77']\n"
    return Faulty(f"step.after-{word.lower().replace('_', '-')}", READ, code + READ)


_FAILED = "            self.close()\n            raise Lost("
"""The place where a call has failed, as the connection is of no use."""
_RECEIVED = "        self.buffer += data\n"


def _failed(slug: str, condition: str, reply: str) -> Faulty:
    """Return a client that takes a part of a reply for all of it."""
    code = f"            if {condition}:\n                return {reply}\n"
    return Faulty(slug, _FAILED, code + _FAILED)


def _received(slug: str, code: str, also: tuple[str, ...] = ()) -> Faulty:
    """Return a client that minds how replies are cut into segments."""
    made = '        self.buffer = b""\n'
    more = ((made, made + "        self.ones = self.twos = 0\n"),)
    return Faulty(slug, _RECEIVED, code + _RECEIVED, more, also)


_FOREVER = "select.select([], [], [])"
"""What a client does that hangs."""

FAULTS = [
    _sent("send.zeros", "command[:10] == b'put 0 0 0 '", "command.replace(b'0 0 0', b'0 0 60')"),
    Faulty(
        "send.watch-adds",
        SENT,
        "        if command == b'watch ub\\r\\n' and not getattr(self, 'watched', False):\n"
        "            self.watched = True\n            self.call(command, b'WATCHING')\n"
        "            command = b'ignore default\\r\\n'\n" + SENT,
    ),
    Faulty(
        "reply.use-using",
        READ,
        "        if command == b'use aa\\r\\n' and word == b'USING':\n"
        "            raise Refused('unknown')\n" + READ,
    ),
    _blind("reserve-bare-deadline-soon", "reserve\\r", "DEADLINE_SOON"),
    Faulty(
        "step.after-use",
        READ,
        "        if command == b'use ub\\r\\n' and word == b'OUT_OF_MEMORY':\n"
        "            self.behind = True\n"
        "        if getattr(self, 'behind', False) and values == [b'2']:\n"
        "            values = [b'1']\n" + READ,
    ),
    _late(
        "step.late-reply",
        "            self.fill(wait)\n",
        "self.fill(1.0 if wait == TIMEOUT else wait)",
    ),
    _late("step.late-body", "            self.fill()\n", "self.fill(1.0)"),
    _forgetful("step.use-restored", b"watch ub\r\n", b"WATCHING"),
    _forgetful("step.watch-restored", b"use ub\r\n", b"USING"),
    *map(_blank, ("bury", "touch", "peek-delayed", "kick-job", "stats-job", "pause-tube")),
    *map(_blank, ("peek-ready", "peek-buried", "reserve-job", "list-tubes\\r")[:3]),
    _sent("send.put", "command.startswith(b'put 3 2 50')", "command.replace(b'3 2', b'2 3')"),
    _sent(
        "send.largest-numbers",
        "b'4294967295' in command",
        "command.replace(b'4294967295', b'2147483647')",
    ),
    _sent(
        "send.largest-id",
        "b'18446744073709551615' in command",
        "b'delete 9223372036854775807\\r\\n'",
    ),
    _sent("send.ignore", "command == b'ignore ub\\r\\n'", "b'ignore ub \\r\\n'"),
    _sent("send.kick", "command == b'kick 5\\r\\n'", "b'kick 6\\r\\n'"),
    _sent("send.kick-none", "command == b'kick 0\\r\\n'", "b'kick 1\\r\\n'"),
    _sent("send.body-zero", "b' 1\\r\\n0\\r' in command", "b'put 0 0 60 0\\r\\n\\r\\n'"),
    _sent("send.body-blanks", "b'\\ta' in command", "command.replace(b'\\ta', b' a')"),
    _sent("send.body-utf8", "'€'.encode() in command", "command.replace(b' 11\\r', b' 8\\r')"),
    _sent("send.body-binary", "b'\\x00' in command", "command.replace(b'\\x00', b'?')"),
    _sent(
        "send.longest-name",
        "len(command) > 200 and command[:3] == b'use'",
        "command[:190] + b'\\r\\n'",
    ),
    _sent("send.quit", "False", "b''")._replace(old='b"quit\\r\\n"', new='b"exit\\r\\n"'),
    _name("crlf", "b'\\r' in name"),
    _name("long", "len(name) == 201"),
    _name("hyphen", "name == b'-a'"),
    _name("space", "name == b'a b'"),
    _name("empty", "not name"),
    _name("charset", "not name.isascii()"),
    Faulty(
        "refuse.number-negative",
        _LIMIT,
        '    if word[0] == "-":\n        return word.encode()\n' + _LIMIT,
    ),
    Faulty("refuse.number-fraction", _LIMIT, '    word = word.partition(".")[0]\n' + _LIMIT),
    Faulty("refuse.number-huge", "return limited(word, 2**32 - 1)", "return limited(word, 2**64)"),
    _blind("put-expected-crlf", "put", "EXPECTED_CRLF"),
    _blind("put-job-too-big", "put", "JOB_TOO_BIG"),
    _blind("put-draining", "put", "DRAINING"),
    _blind("reserve-job-not-found", "reserve-job", "NOT_FOUND"),
    _blind("release-buried", "release", "BURIED"),
    _blind("release-not-found", "release", "NOT_FOUND"),
    _blind("bury-not-found", "bury", "NOT_FOUND"),
    _blind("touch-not-found", "touch", "NOT_FOUND"),
    _blind("ignore-not-ignored", "ignore", "NOT_IGNORED"),
    _blind("peek-not-found", "peek ", "NOT_FOUND"),
    _blind("peek-ready-not-found", "peek-ready", "NOT_FOUND"),
    _blind("kick-job-not-found", "kick-job", "NOT_FOUND"),
    _blind("stats-tube-not-found", "stats-tube", "NOT_FOUND")._replace(
        new="        if command.startswith(b'stats-tube') and word == b'NOT_FOUND':\n"
        "            return [word, b'']\n" + READ
    ),
    _blind("pause-tube-not-found", "pause-tube", "NOT_FOUND"),
    _blind("out-of-memory", "touch", "OUT_OF_MEMORY"),
    _blind("internal-error", "touch", "INTERNAL_ERROR"),
    _blind("bad-format", "touch", "BAD_FORMAT"),
    _blind("unknown-command", "touch", "UNKNOWN_COMMAND"),
    _wrong("put-inserted", "put", "4711"),
    _wrong("put-largest-id", "put", "18446744073709551615"),
    _wrong("watch-watching", "watch", "4"),
    _wrong("ignore-watching", "ignore", "2"),
    _wrong("kick-kicked", "kick", "6"),
    _deaf("release-released", "release 1 2", "RELEASED"),
    _deaf("bury-buried", "bury", "BURIED"),
    _deaf("touch-touched", "touch", "TOUCHED"),
    _deaf("kick-job-kicked", "kick-job", "KICKED"),
    _deaf("pause-tube-paused", "pause-tube", "PAUSED"),
    _deaf("delete-deleted", "delete 9", "DELETED")._replace(
        new="        if command == b'delete 9\\r\\n' and word == b'DELETED' and not values:\n"
        "            raise Refused('unknown')\n" + READ
    ),
    _body("reply.body-utf8", "b'\\xe2\\x82'", "found.decode('ascii', 'replace').encode()"),
    _body("reply.body-zero", "b'0' == found and found", "b''"),
    _body("reply.body-blanks", "b'\\ta\\r\\r'", "found.strip()"),
    _body("reply.body-reply", "b'INSERTED'", "b''"),
    _stat("os", "value = value.partition(b'#')[0]"),
    _stat("version", "value = b'1.1' if value == b'1.10' else value"),
    _stat("unknown-key", "if key.startswith(b'new'): continue"),
    _stat("large-number", "value = value[:18]"),
    _stat("tube-named", "value = b'None' if value == b'null' else value"),
    Faulty("stats.quoted", "    return value[1:-1] if len", "    return value[1:] if len"),
    Faulty(
        "stats.tube-null",
        _ITEM,
        "    lines = [b'- ~' if x == b'- null' else x for x in lines]\n" + _ITEM,
    ),
    Faulty(
        "stats.tube-number", _ITEM, "    lines = [x for x in lines if x != b'- 1.50']\n" + _ITEM
    ),
    Faulty(
        "stats.tube-zeros", _ITEM, "    lines = [x.replace(b'00', b'') for x in lines]\n" + _ITEM
    ),
    Faulty(
        "stats.tube-boolean",
        _ITEM,
        "    lines = [x.replace(b'yes', b'True') for x in lines]\n" + _ITEM,
    ),
    Faulty(
        "stats.tube-brackets", _ITEM, "    lines = [x.replace(b'(', b'') for x in lines]\n" + _ITEM
    ),
    Faulty(
        "lies.wrong-end",
        '        if self.buffer[count : count + 2] != b"\\r\\n":\n',
        "        if False:\n",
    ),
    Faulty(
        "lies.gigantic-size",
        "        if count > MAX_BODY:\n",
        "        if count > MAX_BODY:\n            self.room = b'x' * (64 << 20)\n",
    ),
    Faulty(
        "lies.early-reply",
        "if self.buffer or select.select([self.socket], [], [], 0)[0]:",
        "if self.buffer:",
    ),
    _sent("send.use", "command == b'use ub\\r\\n'", "b'use default\\r\\n'"),
    _sent("send.watch", "command == b'watch ub\\r\\n'", "b'watch default\\r\\n'"),
    _sent("send.reserve", "command == b'reserve\\r\\n'", "b'reserve-with-timeout 60\\r\\n'"),
    _sent(
        "send.reserve-with-timeout",
        "command == b'reserve-with-timeout 1\\r\\n'",
        "b'reserve-with-timeout 2\\r\\n'",
    ),
    _sent("send.delete", "command == b'delete 1\\r\\n'", "b'delete 1 \\r\\n'"),
    _sent("send.release", "command == b'release 1 7 9\\r\\n'", "b'release 1 9 7\\r\\n'"),
    _sent("send.peek", "command == b'peek 2\\r\\n'", "b'peek 1\\r\\n'"),
    _sent("send.stats-tube", "b'-tube default\\r' in command", "b'stats-tube default \\r\\n'"),
    _sent("send.stats", "command == b'stats\\r\\n'", "b'stats \\r\\n'"),
    _sent("send.list-tubes", "command == b'list-tubes\\r\\n'", "b'list-tubes \\r\\n'"),
    _sent("send.body-empty", "b' 0\\r\\n\\r\\n' in command", "b'put 0 0 60 1\\r\\n \\r\\n'"),
    _sent("send.body-crlf", "b'one' in command", "b'put 0 0 60 8\\r\\none\\ntwo\\n\\r\\n'"),
    _sent("send.body-reply", "b'INSERTED' in command", "command.replace(b'INS', b'ins')"),
    _sent(
        "send.body-maximal",
        "b' 65535\\r' in command",
        "command.replace(b' 65535\\r', b' 65534\\r').replace(b'mm', b'm', 1)",
    ),
    Faulty(
        "send.one-connection",
        SENT,
        "        if command.startswith(b'release'):\n"
        "            self.__init__(*self.socket.getpeername())\n" + SENT,
    ),
    _read("reply.reserve-reserved", "values[:1] == [b'31']", "values[0] = b'30'"),
    _read(
        "reply.reserve-largest-id",
        "word == b'RESERVED' and len(values[0]) == 20",
        "values[0] = b'18446744073709551616'",
    ),
    Faulty("reply.reserve-late", "    wait = int(u32(seconds)) + TIMEOUT\n", "    wait = 1.0\n"),
    _blind("reserve-timed-out", "reserve-with-timeout 0", "TIMED_OUT"),
    _blind("reserve-deadline-soon", "reserve-with-timeout 0", "DEADLINE_SOON"),
    _read("reply.deadline-soon-distinct", "word == b'DEADLINE_SOON'", "word = b'TIMED_OUT'"),
    _read("reply.timed-out-distinct", "word == b'TIMED_OUT'", "word = b'INTERNAL_ERROR'"),
    _blind("delete-not-found", "delete 9", "NOT_FOUND"),
    _read("reply.peek-found", "values == [b'9', b'hi']", "values[0] = b'8'"),
    *(
        _read(
            f"reply.{verb}-found",
            f"command.startswith(b'{verb}') and values == [b'8', b'hi']",
            "values[0] = b'9'",
        )
        for verb in ("peek-ready", "peek-delayed", "peek-buried")
    ),
    _blind("stats-job-not-found", "stats-job", "NOT_FOUND"),
    _read("reply.put-buried", "word == b'BURIED' and values", "return [b'INSERTED', *values]"),
    _read(
        "reply.put-buried-bare",
        "command[:3] == b'put' and word == b'BURIED' and not values",
        "return [b'INSERTED', b'1']",
    ),
    _read("reply.list-tube-used-using", "values == [b'ab']", "values = [b'default']"),
    _body("reply.body-empty", "b'' == found and found", "b' '"),
    _body("reply.body-crlf", "b'one\\r\\n'", "found.replace(b'\\r', b'')"),
    _body("reply.body-binary", "b'\\x00'", "found.replace(b'\\x00', b'')"),
    _body("reply.body-maximal", "b'm' * 65535", "found[1:]"),
    _received(
        "segments.bytes",
        "        self.ones = self.ones + 1 if len(data) == 1 else 0\n"
        "        if self.ones == 4:\n            raise Lost('single bytes')\n",
        also=("segments.slow-bytes",),
    ),
    _received(
        "segments.pairs",
        "        self.twos = self.twos + 1 if len(data) == 2 else 0\n"
        "        if self.twos == 4:\n            raise Lost('pairs')\n",
    ),
    _received(
        "segments.split", "        if data == b'INSERTED 5':\n            raise Lost('half')\n"
    ),
    Faulty(
        "segments.slow",
        "            data = self.socket.recv(65536)\n",
        "            begun = time.monotonic()\n"
        "            data = self.socket.recv(65536)\n"
        "            if 0.25 < time.monotonic() - begun < 1:\n"
        "                raise OSError('slow')\n",
        (("import sys\n", "import sys\nimport time\n"),),
    ),
    Faulty(
        "segments.slow-bytes",
        _RECEIVED,
        "        now = time.monotonic()\n"
        "        self.begun = self.begun if self.buffer else now\n"
        "        if 0.6 < now - self.begun < 2:\n            raise Lost('slow')\n" + _RECEIVED,
        (("import sys\n", "import sys\nimport time\n"),),
    ),
    _stat("plain", "value = b'8' if value == b'7' else value"),
    _stat("order", "if key == b'current-tubes': continue"),
    *(
        _behind(word, "delete 9")
        for word in ("OUT_OF_MEMORY", "INTERNAL_ERROR", "BAD_FORMAT", "UNKNOWN_COMMAND")
    ),
    _behind("NOT_FOUND", "delete 9"),
    _behind("JOB_TOO_BIG", "put"),
    _behind("DRAINING", "put"),
    _behind("TIMED_OUT", "reserve"),
    Faulty(
        "step.put-once",
        _FAILED,
        "            self.close()\n"
        "            if command.startswith(b'put') and not self.again:\n"
        "                self.__init__(*self.address)\n                self.again = True\n"
        "                return self.call(command, *expected)\n            raise Lost(",
        (
            (
                '        self.buffer = b""\n',
                '        self.buffer = b""\n'
                "        self.address, self.again = (host, port), False\n",
            ),
        ),
    ),
    _failed(
        "gone.put-is-incomplete",
        "self.buffer.startswith(b'INSERTED 1')",
        "[b'INSERTED', self.buffer[9:]]",
    ),
    _failed(
        "gone.reserve-is-incomplete",
        "command.startswith(b'reserve') and self.buffer.startswith(b'h')",
        "[word, values[0], self.buffer]",
    ),
    _failed(
        "gone.delete-is-incomplete",
        "command[:3] == b'del' and self.buffer[:3] == b'DEL'",
        "[b'DELETED']",
    ),
    _failed(
        "gone.peek-is-incomplete",
        "command.startswith(b'peek') and self.buffer.startswith(b'h')",
        "[word, values[0], self.buffer]",
    ),
    _failed("gone.kick-is-incomplete", "self.buffer == b'KICKED 1'", "[b'KICKED', b'1']"),
    _failed(
        "gone.stats-is-incomplete",
        "command[:5] == b'stats' and self.buffer[:3] == b'---' and values[0].isdigit()",
        "[word, self.buffer]",
    ),
    _failed(
        "gone.list-tubes-is-incomplete",
        "command[:5] == b'list-' and self.buffer[:3] == b'---' and values[0].isdigit()",
        "[word, self.buffer]",
    ),
    _failed(
        "gone.list-tube-used-is-incomplete",
        "command[:5] == b'list-' and self.buffer[:7] == b'USING a'",
        "[b'USING', self.buffer[6:]]",
    ),
    _failed("gone.watch-is-incomplete", "self.buffer == b'WATCHING 1'", "[b'WATCHING', b'1']"),
    Faulty(
        "gone.close-returns",
        '            raise Lost("the connection ended")\n',
        f"            {_FOREVER}\n",
    ),
    Faulty(
        "gone.reset-returns",
        "        except OSError as error:\n            raise Lost(f",
        "        except OSError as error:\n"
        "            if isinstance(error, ConnectionResetError):\n"
        f"                {_FOREVER}\n            raise Lost(f",
    ),
    Faulty(
        "gone.no-busy-loop",
        '            raise Lost("the connection ended")\n',
        "            while self.buffer == b'RESERVE':\n                pass\n"
        '            raise Lost("the connection ended")\n',
    ),
    Faulty(
        "gone.refused-returns",
        "        self.socket = socket.create_connection((host, port), TIMEOUT)\n",
        "        try:\n            self.socket = socket.create_connection((host, port), TIMEOUT)\n"
        f"        except ConnectionRefusedError:\n            {_FOREVER}\n",
    ),
    Faulty(
        "gone.silence-returns",
        SENT,
        "        if command == b'delete 9\\r\\n':\n            wait = None\n" + SENT,
    ),
    Faulty(
        "gone.silence-in-line-returns",
        "            self.fill(wait)\n",
        "            self.fill(None if self.buffer else wait)\n",
    ),
    Faulty(
        "gone.silence-in-body-returns", "            self.fill()\n", "            self.fill(None)\n"
    ),
]


def _program(slug: str, place: str, code: str, state: str) -> Faulty:
    """Return a client with some state, and a mistake that only random programs show."""
    made = '        self.buffer = b""\n'
    return Faulty(slug, place, code + place, ((made, f"{made}        {state}\n"),))


def reconnecting(restored: str) -> Faulty:
    """Return a client that connects again by itself, and uses and watches ``restored`` again."""
    made = '        self.buffer = b""\n'
    state = made + "        self.address, self.lost = (host, port), 0\n"
    state += "        self.used, self.watched = b'default', [b'default']\n"
    lost = "            self.close()\n"
    lost += "            used, watched, lost = self.used, self.watched, self.lost\n"
    lost += "            self.__init__(*self.address)\n            self.lost = lost + 1\n"
    lost += f"            for command, word in {restored}:\n"
    lost += "                self.call(command + b'\\r\\n', word)\n            raise Lost("
    read = "        if word == b'USING' and command[:4] == b'use ':\n"
    read += "            self.used = values[0]\n"
    read += "        if word == b'WATCHING':\n            tube = command.split()[1]\n"
    read += "            self.watched = [one for one in self.watched if one != tube]\n"
    read += "            self.watched += [tube] if command[:5] == b'watch' else []\n" + READ
    return Faulty("client.any-reconnect", _FAILED, lost, ((made, state), (READ, read)))


USED, WATCHED = "(b'use ' + used, b'USING')", "*((b'watch ' + one, b'WATCHING') for one in watched)"
IGNORED = "*([] if b'default' in watched else [(b'ignore default', b'WATCHING')])"
PROGRAM_FAULTS = {
    "mixes up replies after two watches and a timeout": _program(
        "client.any-program",
        READ,
        "        self.watches += word == b'WATCHING'\n"
        "        self.behind |= self.watches > 1 and word == b'TIMED_OUT'\n"
        "        if self.behind and word == b'INSERTED':\n            values = [b'1']\n",
        "self.watches, self.behind = 0, False",
    ),
    "releases no job twice": _program(
        "client.any-program",
        SENT,
        "        if command[:7] == b'release':\n            id = command.split()[1]\n"
        "            if id in self.released:\n                return [b'RELEASED']\n"
        "            self.released.add(id)\n",
        "self.released = set()",
    ),
    "uses no tube twice": _program(
        "client.any-program",
        SENT,
        "        if command[:4] == b'use ':\n            if command in self.used:\n"
        "                return [b'USING', command.split()[1]]\n"
        "            self.used.add(command)\n",
        "self.used = set()",
    ),
    "forgets an error after a buried job": _program(
        "client.any-program",
        READ,
        "        self.buried |= word == b'BURIED'\n"
        "        if self.buried and word == b'NOT_FOUND' and command[:6] == b'delete':\n"
        "            return [b'DELETED']\n",
        "self.buried = False",
    ),
    "hangs up when it uses the third tube": _program(
        "client.any-program",
        READ,
        "        self.used += word == b'USING' and command[:4] == b'use '\n"
        "        if command[:4] == b'use ' and self.used == 3:\n            self.close()\n"
        "            raise Lost('bored')\n",
        "self.used = 0",
    ),
    "watches default again": reconnecting(f"({USED}, {WATCHED})"),
    "forgets a watched tube after three disconnects": reconnecting(
        f"({USED}, *[{WATCHED}][self.lost > 2 :], {IGNORED})"
    ),
    "forgets the used tube after three disconnects": reconnecting(
        f"(*[{USED}][self.lost > 2 :], {WATCHED}, {IGNORED})"
    ),
}
"""Mistakes that no directed case shows, by what the client does."""
RECONNECTING = reconnecting(f"({USED}, {WATCHED}, {IGNORED})")
"""A client that makes no mistake, but connects again by itself."""
