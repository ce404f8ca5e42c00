"""The outcome of a campaign as tests, as reports show them: one for each finding."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.catalogue import catalogue
from conformance.run.campaign_results import CampaignOutcome, finding, passed
from conformance.run.kept_transcripts import TranscriptKeeper
from conformance.run.options import Options, with_short_names
from fuzz.campaign_findings import Filed
from reference_server.profiles import Profile
from reports.results import Test

PREFIX = "fuzz::"
"""The beginning of the names of tests that record what a campaign has found."""
_BYTES = "protocol.any-bytes"


def outcome_of(
    found: Sequence[Filed],
    profile: Profile,
    seconds: float,
    health: Sequence[str],
    options: Options,
    keeper: TranscriptKeeper,
) -> CampaignOutcome:
    """Return the outcome of a campaign that took so many seconds on the target of ``options``."""
    tests = [_failed(filed, profile, options, keeper) for filed in found]
    if not any(_BYTES in test.requirements for test in tests):
        tests.append(passed(f"{PREFIX}{_BYTES}", _BYTES))
    return CampaignOutcome(PREFIX, tests, seconds, catalogue(), health=health)


def _failed(filed: Filed, profile: Profile, options: Options, keeper: TranscriptKeeper) -> Test:
    name, target = filed.diagnosis.name, with_short_names(options.chosen)
    command = ["fuzz"] if filed.path is None else ["replay", str(filed.path)]
    again = ["beanstalk-conformance", *command, *target]
    error, transcript = filed.deviation(), filed.transcript
    return finding(f"{PREFIX}{name}", _BYTES, error, transcript, again, profile, keeper)
