"""The coverage that a target offers, and the grey box for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Self

from conformance.printable import printable
from conformance.run.options import Options
from conformance.target.builtin import BuiltIn
from conformance.target.limits import Limits
from conformance.target.target import Target
from fuzz.coverage import CountedEdges, Coverage, ModelLines
from fuzz.entries import SharedEntries
from fuzz.greybox import GreyBox
from fuzz.instrumentation import map_size
from fuzz.scout import Scout
from fuzz.shared_memory import NoMemory, SharedSegment

CHOICES = ("auto", "afl", "llvm", "off")


class NotInstrumented(Exception):
    """The edges of a target were asked for, but cannot be seen; the text says why."""


@dataclass(frozen=True, slots=True)
class Sight:
    """The coverage feedback of a target: its ``description``, and its counters if it has any."""

    description: str
    options: Options
    judged: SharedSegment | None = None
    """The counters of the server on which programs are judged; scouts have one of their own."""
    scouted: SharedSegment | None = None
    is_ours: bool = False

    @classmethod
    def of(cls, options: Options, choice: str) -> Self:
        """Detect the feedback that a target offers; raises NotInstrumented or LaunchError."""
        if choice == "off":
            return cls("a black box, as asked for", options)
        if options.command is None:
            if choice != "auto":
                raise NotInstrumented("the edges of a target are seen with --launch only")
            if options.address is None:
                return cls("guided by the lines of its codec and model", options, is_ours=True)
            return cls("a black box, as we do not launch it", options)
        try:
            size = map_size(options.command, Limits(start=options.start_timeout))
            if size is not None:
                judged, scouted = SharedSegment(size), SharedSegment(size)
                seen = replace(options, environment=judged.environment)
                return cls(f"guided by its {size:,} counters", seen, judged, scouted)
            why = "it counts no edges"
        except NoMemory as error:
            why = str(error)
        if choice != "auto":
            raise NotInstrumented(f"--coverage {choice}: {why}")
        return cls(f"a black box, as {why}", options)

    def named(self, target: Target) -> str:
        """Return a target that is known now, and how it is seen, in words."""
        name = f"{target.label} {target.version} (profile {target.profile.name})"
        return printable(f"{name}, {self.description}")

    def grey_box(self, target: Target, seed: int, shelf: SharedEntries | None) -> GreyBox | None:
        """Return scouts for a target, None if it is a black box."""
        coverage: Coverage
        scout: Scout
        if self.judged is not None and self.scouted is not None:
            options = replace(self.options, environment=self.scouted.environment)
            own = options.target()
            own.profile = target.profile
            coverage, scout = CountedEdges(self.judged), Scout(own, CountedEdges(self.scouted))
        elif self.is_ours and isinstance(target, BuiltIn):
            fresh = target.fresh()
            assert isinstance(fresh, BuiltIn)
            coverage, scout = ModelLines(target), Scout(fresh, ModelLines(fresh))
        else:
            return None
        return GreyBox(scout, coverage, Random(seed), shelf)
