"""A program that is confined to tubes and jobs of its own, for servers that others use.

A transcript may name anything: the tube ``default``, the job 37. On a server that others use, the
same bytes would take, kick or delete what belongs to them. So each tube becomes one of ours, also
``default``, in which all clients begin. Jobs are those that the program puts. A line that might
mean anything else is refused: a server with bugs is not trusted to ignore it.
"""

from __future__ import annotations

import re
from collections import defaultdict

from conformance.random_testing.steps import Ask, Happen, Leave, Program, Step
from conformance.target.footprint import FOOTPRINT
from conformance.transcript import FOLD
from conformance.verdict import NotTestable
from reference_server.commands import ABOUT_A_JOB, ABOUT_A_TUBE, COMMANDS, any_of
from reference_server.profiles import NAME_CHARS
from reference_server.wire import CRLF, escape

_FIRST = re.escape(NAME_CHARS.replace(b"-", b""))
_TUBE = re.compile(rb"(%b [^%b]*)([%b-]+)" % (any_of(*ABOUT_A_TUBE), _FIRST, _FIRST))
"""A command about a tube, and the name that a server may read from it."""
_JOB = re.compile(rb"%b [^0-9]*0*[1-9]" % any_of(*ABOUT_A_JOB))
_HIDDEN = re.compile(rb"%b +[^ \r\n]" % any_of("stats", *ABOUT_A_JOB, *ABOUT_A_TUBE))
_SIZE = re.compile(rb"put(?: +[0-9]+){3} +([0-9]{1,10}) *")


class Unsafe(Exception):
    """A line might touch what belongs to others; the text says which line, and why."""

    def __init__(self, line: bytes, why: str) -> None:
        more = "…" if len(line) > FOLD else ""
        super().__init__(f"“{escape(line[:FOLD])}{more}” {why}")


class Confinement:
    """Keeps a program to tubes of its own; ``home`` is the one that stands for ``default``."""

    def __init__(self) -> None:
        self.home = FOOTPRINT.new_name().encode()
        self._names = {b"default": self.home}
        self._missing: defaultdict[int, int] = defaultdict(int)
        """The bytes of a body that each client still has to send."""

    def confined(self, program: Program) -> list[Step]:
        """Return a program that does the same in tubes of our own.

        Raises :class:`Unsafe`, or NotTestable for what needs a server of its own.
        """
        return [self._step(step) for step in program]

    def _step(self, step: Step) -> Step:
        match step:
            case Happen():
                raise NotTestable("needs --launch: a server of its own, to signal or restart it")
            case Ask():
                return step._replace(text=self._text(step))
            case Leave(client):
                self._missing.pop(client, None)
        return step

    def _text(self, ask: Ask) -> bytes:
        # Bytes, in which a known job has a place of its own.
        text = ask.text if ask.job is None else ask.text.replace(b"%%", b"%")
        if self._missing[ask.client] >= len(text):
            self._missing[ask.client] -= len(text)
            self._check_body(text, text)
            return ask.text
        self._missing[ask.client] = 0
        head, end, body = text.partition(CRLF)
        verb, _, arguments = head.partition(b" ")
        if not end:
            raise Unsafe(text, "is not a whole line, and what follows may change its meaning")
        if verb.decode("latin-1") not in COMMANDS:
            raise Unsafe(text, "is no command of the protocol, and may do anything on this server")
        if ask.job is None and _JOB.match(head):
            raise Unsafe(head, "is about a job that the transcript has not put")
        self._check_body(arguments, text)
        self._check_body(body, text)
        if put := _SIZE.fullmatch(head):
            self._missing[ask.client] = max(int(put[1]) + len(CRLF) - len(body), 0)
        if tube := _TUBE.match(text):
            return tube[1] + self._own(tube[2]) + text[tube.end() :]
        return ask.text

    @staticmethod
    def _check_body(data: bytes, text: bytes) -> None:
        if _HIDDEN.search(data):
            raise Unsafe(text, "contains a command, which this server might carry out")

    def _own(self, name: bytes) -> bytes:
        """Return the tube of ours that stands for another; a long name stays as long as it is."""
        if name not in self._names:
            own = FOOTPRINT.new_name().encode()
            self._names[name] = own + name[len(own) :]
        return self._names[name]
