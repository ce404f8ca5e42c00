"""The options of the command line, and the target that they name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

import pytest

from conformance.run.labels import parsed
from conformance.target.builtin import BuiltIn
from conformance.target.cleanup import NOTHING_LEFT, leave, may_be_left
from conformance.target.command import LaunchError, check_command
from conformance.target.launched_target import LaunchedTarget
from conformance.target.limits import USUAL, Limits
from conformance.target.target import Remote, Target
from conformance.target.traits import Traits
from conformance.usage import LONGEST, refuse
from reference_server.dialect import DialectError
from reference_server.finding import find_profile
from reference_server.profiles import NEWEST, Profile

AUTO = "auto"
"""The profile is taken from what the target says of itself; the clock is moved if it can be."""


@dataclass(frozen=True, slots=True)
class Options:
    """The choices of the command line; times are in seconds."""

    address: str | None
    command: str | None
    clock: str
    lateness: float = USUAL.lateness
    examples: int = 25
    seed: int = 0
    fuzz_time: float = 2.5
    profile: str = AUTO
    name: str = ""
    labels: tuple[str, ...] = ()
    start_timeout: float = USUAL.start
    peers: int = USUAL.peers
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that a launched server gets."""

    @classmethod
    def of_command(
        cls,
        address: str | None,
        command: str | None,
        clock: str,
        start_timeout: float,
        profile: str = AUTO,
    ) -> Self:
        """Return those of a subcommand that names a target; refuses what makes no sense."""
        options = cls(address, command, clock, start_timeout=start_timeout, profile=profile)
        try:
            options.check()
        except pytest.UsageError as error:
            raise refuse(str(error)) from None
        return options

    def check(self) -> None:
        """Raise UsageError if they contradict each other or make no sense."""
        if self.address is not None and self.command is not None:
            raise pytest.UsageError("--target and --launch exclude each other")
        if self.command is not None:
            try:
                check_command(self.command)
            except LaunchError as error:
                raise pytest.UsageError(str(error)) from None
        if self.clock == "fake" and self.command is None:
            raise pytest.UsageError("a fake clock needs --launch: it is set when a server starts")
        for what, number in (("examples", self.examples), ("peers", self.peers)):
            if number < 1:
                raise pytest.UsageError(f"the number of {what} is 1 or more")
        for what, seconds in (
            ("for hostile bytes", self.fuzz_time),
            ("until a server listens", self.start_timeout),
        ):
            if not 0 < seconds <= LONGEST:
                raise pytest.UsageError(
                    f"the time {what} is more than 0 and at most {LONGEST:,.0f} seconds"
                )
        if not 0 < self.lateness <= 0.5:
            raise pytest.UsageError("the lateness is more than 0 and at most 0.5 seconds")
        try:
            self.named_profile()
        except DialectError as error:
            raise pytest.UsageError(str(error)) from None
        parsed(self.labels)

    def named_profile(self) -> Profile | None:
        """Return the profile that the user named, None to detect it; raises DialectError."""
        return None if self.profile == AUTO else find_profile(self.profile)

    def recognise(self, target: Target) -> Profile:
        """Set the profile of a target: the one that the user named, or the detected one."""
        return target.probe(self.named_profile())

    def target(self, traits: Traits | None = None) -> Target:
        """Return the target that they name; raises TargetError or LaunchError.

        ``traits``: those of the target, if it was surveyed already.
        """
        limits = Limits(lateness=self.lateness, start=self.start_timeout, peers=self.peers)
        if self.address is not None:
            return Remote(self.address, limits, traits)
        if self.command is not None:
            return LaunchedTarget(
                self.command,
                self.clock,
                limits=limits,
                environment=self.environment,
                traits=traits,
            )
        return BuiltIn(self.named_profile() or NEWEST, limits=limits)

    def leave(self) -> str:
        """Delete everything that this process has put on a shared server.

        Return a sentence about it; empty on a server of our own.
        """
        if self.address is None:
            return ""
        is_clean = leave(self.target(), [])
        return NOTHING_LEFT if is_clean else may_be_left(self.address)

    @property
    def names_server(self) -> bool:
        """Return whether a server is to be tested, not the built-in one."""
        return self.address is not None or self.command is not None

    @property
    def chosen(self) -> list[str]:
        """The arguments that name the same target again."""
        if self.address is not None:
            target = [f"--target={self.address}"]
        else:
            target = [] if self.command is None else ["--launch", self.command]
        if self.start_timeout != USUAL.start:
            target.append(f"--beanstalk-start-timeout={self.start_timeout:g}")
        return target if self.profile == AUTO else [*target, f"--beanstalk-profile={self.profile}"]


def with_short_names(words: Iterable[str]) -> list[str]:
    """Return options of the plugin with the names that commands of the program have for them."""
    return [word.replace("--beanstalk-", "--", 1) for word in words]
