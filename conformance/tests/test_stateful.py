"""Any conversation: rules that Hypothesis combines, each reply judged by the oracle."""

from __future__ import annotations

from conformance.catalogue import requirement
from conformance.random_testing.exploration import Exploration
from conformance.target.target import Target
from conformance.transcript import Transcript


@requirement(
    "protocol.any-conversation",
    "For each connection, the server processes commands serially in the order in which they "
    "were received and sends responses in the same order.",
)
def test_any_conversation(server: Target, transcript: Transcript, exploration: Exploration) -> str:
    # Hypothesis takes a while to load: only where it is needed.
    from conformance.random_testing.rules import make_up

    def conversations() -> str:
        return make_up(server, transcript, exploration)

    # Other random tests do not try them: they look for something else, and would all fail alike.
    return exploration.judge(server, transcript, conversations, exploration.earlier())
