"""The name of the target in results and summaries."""

from __future__ import annotations

from conformance.run.evidence import clean
from conformance.run.options import AUTO, Options
from conformance.target.target import Target
from reference_server.profiles import Profile
from reports import results


def identified(target: Target, options: Options) -> results.TargetRecord:
    """Return a target, which these options name, as results name it."""
    is_asked = options.profile != AUTO
    return results.TargetRecord(
        title=clean(options.name),
        label=clean(target.label),
        version="".join(c if c.isprintable() else "?" for c in target.version[:60]),
        profile=target.profile.name,
        profile_reason="as the command line says" if is_asked else clean(target.profile_reason),
        dialect=_departures(target.profile),
        clock="moved" if target.clock.movable else "real",
        clock_reason=clean(target.clock_reason),
    )


def _departures(profile: Profile) -> results.DialectRecord | None:
    """Return a fork's dialect and its differences; None if the profile is not a fork's."""
    dialect = profile.dialect
    if not dialect.extends:
        return None
    return results.DialectRecord(
        extends=dialect.extends,
        told=dialect.told,
        departures=[
            results.Departure(what=clean(what), reason=clean(reason))
            for what, reason in dialect.differences
        ],
    )


def named(target: results.TargetRecord) -> str:
    """Return the target as a summary names it."""
    return f"{target.name} (profile {target.profile})"


def spoken(target: results.TargetRecord | None) -> str:
    """Return the dialect of a target as its verdict names it; empty if it has none."""
    if target is None or target.dialect is None:
        return ""
    return f"{target.profile} ({target.dialect.told})"
