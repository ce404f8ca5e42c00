"""Wrong input to the server for tests of applications: one sentence each."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import reference_server
from reference_server import BeanstalkServer

WRONG: list[tuple[Callable[[BeanstalkServer], object], str]] = [
    (lambda server: server.next_reply("OUT_OF_MEM"), "'OUT_OF_MEM' is no reply of the protocol: "),
    (lambda server: server.next_reply(""), "'' is no reply of the protocol: "),
    (lambda server: server.next_reply("INSERTED"), "'INSERTED' is no reply of the protocol: "),
    (lambda server: server.next_reply("TOUCHED\r\nTOUCHED"), "is no reply of the protocol: "),
    (lambda server: server.next_reply("RESERVED 1 5\r\nhi"), "is no reply of the protocol: "),
    (lambda server: server.next_reply("NOT_FOUND", to="destroy"), "'destroy' is no command "),
    (lambda server: server.next_reply("NOT_FOUND", to="quit"), "'quit' is no command "),
    (lambda server: server.drop_connection(after=b""), "after one byte or more, not after none"),
    (lambda server: server.slow(0), "sends more than 0 bytes a second, not 0"),
    (lambda server: server.slow(-1.5), "sends more than 0 bytes a second, not -1.5"),
    (lambda server: server.slow(float("nan")), "sends more than 0 bytes a second, not nan"),
    (lambda server: server.clock.advance(-1), "advanced by 0 to 2\\*\\*32 seconds, not by -1"),
    (lambda server: server.clock.advance(float("inf")), "seconds, not by inf"),
    (lambda server: server.jobs(state="lost"), "no job is 'lost': its state is one of ready, "),
    (lambda server: server.wait_until(lambda: True, -1), "nobody can wait -1 seconds"),
    (
        lambda server: server.inject_fault("the-last-watched-tube-can-be-ignore"),
        "there is no fault .*; is it 'the-last-watched-tube-can-be-ignored'\\?",
    ),
    (lambda _: BeanstalkServer(fault="?"), "^there is no fault '\\?'$"),
    (lambda _: BeanstalkServer(profile="2.0"), "there is no profile '2.0'"),
    (lambda _: BeanstalkServer(max_job_size=-1), "a job has 0 to 2\\*\\*30 bytes, not -1"),
]


@pytest.mark.parametrize(("call", "sentence"), WRONG)
def test_wrong_input_is_named_in_one_sentence(
    server: BeanstalkServer, call: Callable[[BeanstalkServer], object], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence) as raised:
        call(server)
    assert "\n" not in str(raised.value)
    assert raised.value.__cause__ is None


def test_a_condition_that_is_never_true_is_reported(server: BeanstalkServer) -> None:
    with pytest.raises(TimeoutError, match=r"did not become true within 0\.01 seconds"):
        server.wait_until(lambda: False, 0.01)


def test_the_package_has_no_other_names() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'walking'"):
        reference_server.walking  # noqa: B018
