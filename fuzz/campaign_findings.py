"""The findings of a campaign, at first sight and shrunk, and its progress."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from conformance.oracle.diagnosis import Diagnosis
from conformance.random_testing.replay import Counterexample
from conformance.transcript import Transcript
from conformance.verdict import Deviation, TargetLost
from fuzz.health import Health
from fuzz.hostile import Progress


@dataclass(frozen=True, slots=True)
class Filed:
    """A finding: its diagnosis, the transcript that shows it, and the path of that, if kept."""

    diagnosis: Diagnosis
    transcript: Transcript
    path: Path | None
    seen: str
    """The number of replays that reproduced it, in words."""
    is_wild: bool = False
    """No text covers its bytes: it was seen on servers that were started for them."""

    def deviation(self) -> Deviation:
        """Return the failure of a test, shown by the last message of the transcript."""
        more = f"; {self.seen}" if self.seen else ""
        deviation = self.diagnosis.deviation(self.transcript.last, more)
        if isinstance(deviation, TargetLost):
            deviation.is_own = self.is_wild
        return deviation

    @property
    def line(self) -> str:
        """It in one line."""
        said = f"expected {self.diagnosis.expected[:120]}, observed {self.diagnosis.observed[:120]}"
        where = f"; {self.path}" if self.path else ""
        again = f" ({self.seen})" if self.seen else ""
        return f"{self.diagnosis.name}: {said}{again}{where}"


class Sighting(NamedTuple):
    """A finding before it is shrunk.

    ``starved``: seconds for which anybody waited for a CPU then; ``line``: the line that shows it
    alone, most likely; ``first``: where it is kept meanwhile.
    """

    found: Counterexample
    starved: float
    line: bytes | None = None
    first: Path | None = None


@dataclass
class CampaignReport:
    """The progress of a campaign."""

    progress: Progress = field(default_factory=Progress)
    shapes: int = 0
    programs: int = 0
    seconds: float = 0.0
    found: list[Filed] = field(default_factory=list)
    again: int = 0
    """Violations that were like one that is filed."""
    unjudged: int = 0
    """Programs that reach something new, but can be judged only in part."""
    looks: list[Health] = field(default_factory=list)
    """Samples of the current process of the target; a new process begins a new list."""
    health: dict[str, str] = field(default_factory=dict)
    """Resources that were seen to grow and grow, each in a sentence."""
    to_first_failure: bool = False
    """Nobody asks for more than the first finding that breaks a must."""

    def is_over(self, most: float) -> bool:
        """Return whether ``most`` are found, or a broken must with ``to_first_failure``."""
        if len(self.found) >= most:
            return True
        return self.to_first_failure and not all(filed.diagnosis.de_facto for filed in self.found)
