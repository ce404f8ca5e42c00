"""A server that gives one job to several clients: a deviation, and no error of ours."""

from __future__ import annotations

from contextlib import closing

from conformance.run.runner import run
from conformance.target.builtin import BuiltIn
from conformance.target.limits import Limits
from conformance.tests import test_quirks as quirks
from reference_server.events import Event, Output
from reference_server.faults import Fault
from reference_server.model import Model
from reference_server.wire import Reply

HASTY = Limits(clean_up=0.1)


class Shares(Model):
    """All who reserve get the first job."""

    def step(self, event: Event, now: int, conn: int = 0) -> list[Output]:
        return [
            (to, reply._replace(args=(1, *reply.args[1:])))
            if isinstance(reply, Reply) and reply.word == "RESERVED"
            else (to, reply)
            for to, reply in super().step(event, now, conn)
        ]


def test_the_order_of_who_waits_is_told_though_all_get_one_job() -> None:
    with closing(BuiltIn(fault=Fault("", "shares", model=Shares), limits=HASTY)) as target:
        outcome = run(
            quirks.test_the_order_in_which_waiting_clients_are_served,
            {"producer": None, "new_worker": None},
            target,
        )
    assert outcome.error is None
    assert outcome.seen == "of four who wait: 4, none, none, none"
