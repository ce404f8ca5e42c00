"""One function from bytes to a verdict, for any engine that generates bytes.

Atheris, Hypothesis (``fuzz_one_input``) and runners in the manner of AFL call it again and again.
"""

from __future__ import annotations

from collections.abc import Callable

from conformance.random_testing.exploration import Exploration
from conformance.target.target import Target
from fuzz.campaign import ProgramCampaign
from fuzz.corpus import Pool
from fuzz.hostile import CaseAuthor, Progress
from fuzz.program import Choices

CASES = 5
"""Cases of one program: a few, so that one input takes little time."""


def judge(target: Target) -> Callable[[bytes], None]:
    """Return a function that plays the program that bytes choose, and judges what comes of it.

    It raises :class:`~conformance.oracle.violation.Violation` if the target breaks the protocol,
    with what was expected and observed.
    """
    exploration = Exploration(1, profile=target.probe())
    progress = Progress()

    def one(data: bytes) -> None:
        # Nothing is kept from one input to the next: the same bytes mean the same.
        campaign = ProgramCampaign(
            exploration,
            target,
            lambda session, chance: CaseAuthor(session, chance, Pool(), progress).steps(CASES),
        )
        found = campaign.play(Choices(data))
        campaign.close()
        if found is not None:
            raise found.violation

    return one
