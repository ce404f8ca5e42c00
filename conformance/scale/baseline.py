"""Known growth: a file of exponents, so that a run fails only if something has become worse."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from conformance.run.baseline import BaselineError
from conformance.scale.growth import fit
from conformance.scale.measuring import GrowthCosts
from conformance.scale.workloads import Growth
from reference_server.unique_keys import NotUnique, UniqueKeys
from reports.files import replace
from reports.scale import ScaleRatio, ScaleServer

_MARGIN, _FACTOR = 0.25, 1.5
"""By how much an exponent must be beyond the known interval, and by what factor the growth: of many
curves on a busy machine, some are beyond their intervals."""
_RATIO = 1.1
"""By what factor a ratio must be beyond it."""
_Number = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class KnownGrowth(BaseModel):
    """The growth of a command's cost up to a size; ``high``: the ends of 95 % intervals.

    ``ratio_high``: that of the cost by another server's, at that size.
    """

    model_config = ConfigDict(extra="forbid")

    largest: Annotated[int, Field(ge=1)]
    exponent: _Number
    high: _Number
    factor_high: _Number
    ratio_high: _Number | None = None


Known = Mapping[str, KnownGrowth]
_KNOWN = TypeAdapter(dict[str, KnownGrowth])


def read_known(path: Path) -> Known:
    """Return the known growth by command and what grows; raises :class:`BaselineError`."""
    try:
        document = yaml.load(path.read_text(encoding="utf-8"), UniqueKeys)
        return _KNOWN.validate_python(document or {})
    except OSError as error:
        raise BaselineError(f"cannot read the baseline {path}: {error.strerror}") from error
    except NotUnique as error:
        raise BaselineError(f"the baseline {path}: {error}") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError):
        raise BaselineError(f"the baseline {path} is not YAML") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part)[:60] for part in first["loc"]) or "the file"
        raise BaselineError(f"the baseline {path}: {where}: {first['msg']}") from None


def write_known(path: Path, known: Known) -> None:
    """Write known growth; raises :class:`BaselineError`."""
    document = {name: one.model_dump(exclude_none=True) for name, one in known.items()}
    try:
        replace(path, yaml.safe_dump(document, sort_keys=False).encode() if document else b"")
    except OSError as error:
        raise BaselineError(f"cannot write the baseline {path}: {error.strerror}") from error


def key(command: str, grows: str) -> str:
    """Return the name of a curve in a baseline."""
    return f"{command}, {grows}"


def as_known(server: ScaleServer, ratios: list[ScaleRatio]) -> dict[str, KnownGrowth]:
    """Return what a run has measured as known growth."""
    known = {}
    for curve in server.curves:
        if curve.exponent is None or curve.factor is None:
            continue
        size = curve.points[-1].size
        highs = [
            one.ratio.high
            for one in ratios
            if (one.command, one.grows, one.size) == (curve.command, curve.grows, size)
        ]
        known[key(curve.command, curve.grows)] = KnownGrowth(
            largest=size,
            exponent=curve.exponent.value,
            high=curve.exponent.high,
            factor_high=curve.factor.high,
            ratio_high=highs[0] if highs else None,
        )
    return known


def compared(
    known: Known, measured: Mapping[Growth, GrowthCosts], ratios: list[ScaleRatio]
) -> tuple[list[str], list[str]]:
    """Return what is worse than known beyond the noise, and what could not be compared."""
    worse, left = [], []
    found = {key(name, grows): one for grows, one in measured.items() for name in one.points}
    for name, before in known.items():
        command = name.rpartition(", ")[0]
        costs = found[name].costs(command) if name in found else []
        now = fit([one for one in costs if one.size <= before.largest], name)
        if now is None or costs[-1].size < before.largest:
            left.append(f"{name}: not measured up to {before.largest:,}, as in the baseline")
            continue
        is_steeper = now.exponent.low > before.high + _MARGIN
        if is_steeper and now.factor.low > before.factor_high * _FACTOR:
            worse.append(
                f"{name}: the exponent is {now.exponent.value:.2f}"
                f" [{now.exponent.low:.2f}, {now.exponent.high:.2f}], it was {before.exponent:.2f},"
                f" at most {before.high:.2f}"
            )
        for one in ratios:
            is_same = (key(one.command, one.grows), one.size) == (name, before.largest)
            limit = before.ratio_high
            if is_same and limit is not None and one.ratio.low > limit * _RATIO:
                worse.append(f"{name}: the ratio is {one.ratio}, it was at most {limit:.2f}")
    left += [f"{name}: not in the baseline" for name in found if name not in known]
    return worse, left
