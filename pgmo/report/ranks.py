"""Memory figures of a program's ranks, and the largest difference of each figure.

NAME-rankR.json     of `pgmo run --json NAME.json` under torchrun
NAME-R.jsonl        of `pgmo.log_metrics("NAME.jsonl", step)`; only its last line is read
"""

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from pgmo.errors import FileError
from pgmo.units import format_bytes

_RESULT = re.compile(r".*-rank(\d{1,6})\.json")
_LOG = re.compile(r".*-(\d{1,6})\.jsonl")

BYTES = ("peak_live", "reserved", "stuck", "growth")
"""Figures in bytes."""

FIGURES = (*BYTES, "retries", "from_plan")
"""All figures, as `pgmo.metrics` names them."""

_DIFFERS = 0.1
"""A difference is reported above this share of the other ranks' median. The figure `from_plan` is a
share itself, so its difference is compared directly."""

_LEAST_BYTES = 1 << 20
"""Differences of sizes up to this number of bytes are not reported."""


@dataclass(frozen=True)
class RankFigures:
    """Figures of one rank on one device, as in `FIGURES`. The device of a `.jsonl` file is ""."""

    rank: int
    device: str
    file: str
    figures: dict[str, float]


@dataclass(frozen=True)
class Difference:
    """Figure of a rank that differs from `others`, the median of the other ranks' figures."""

    rank: int
    figure: str
    value: float
    others: float

    def __str__(self) -> str:
        name = self.figure.replace("_", " ")
        shown = format_figure(self.figure, self.value), format_figure(self.figure, self.others)
        median_words = f"the median of the other ranks is {shown[1]}"
        return f"rank {self.rank}: {name} is {shown[0]}; {median_words}"


def read_ranks(folder: Path) -> list[RankFigures]:
    """Read the figures of all ranks in a directory, in the order of ranks and devices.

    If there are several files for one rank and device, only the newest counts.

    Raises:
        FileError: if a path cannot be read, a file is not valid JSON, or no file has all `FIGURES`.
    """
    found: dict[tuple[int, str], RankFigures] = {}
    try:
        files = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime)
        for path in files:
            for one in _of_file(path):
                found[one.rank, one.device] = one
    except OSError as error:
        raise FileError(f"{folder} cannot be read: {error.strerror}") from error
    if not found:
        raise FileError(
            f"{folder} has no figures of ranks: write them with `torchrun ... -m pgmo run --json "
            "DIR/run.json`, or with pgmo.log_metrics"
        )
    return [found[key] for key in sorted(found)]


def _of_file(path: Path) -> list[RankFigures]:
    for pattern, read in ((_RESULT, _of_result), (_LOG, _of_log)):
        match = pattern.fullmatch(path.name)
        if match and path.is_file():
            try:
                by_device = read(path.read_text("utf-8"))
            except (ValueError, RecursionError) as error:
                raise FileError(f"{path} has no valid JSON: {error}") from error
            return [
                RankFigures(int(match[1]), device, path.name, figures)
                for device, figures in by_device.items()
            ]
    return []


def _of_result(text: str) -> dict[str, dict[str, float]]:
    value = json.loads(text)
    sessions = value.get("sessions") if isinstance(value, dict) else None
    found = {}
    for session in sessions if isinstance(sessions, list) else ():
        if isinstance(session, dict) and (figures := _figures(session.get("metrics"))):
            found[str(session.get("device", ""))] = figures
    return found


def _of_log(text: str) -> dict[str, dict[str, float]]:
    lines = text.splitlines()
    figures = _figures(json.loads(lines[-1])) if lines else {}
    return {"": figures} if figures else {}


def _figures(value: Any) -> dict[str, float]:
    """Return the figures in parsed JSON; empty if one is missing or not a finite number."""
    if not isinstance(value, dict):
        return {}
    found: dict[str, Any] = {name: value.get(f"pgmo/{name}") for name in FIGURES}
    good = all(
        isinstance(one, (int, float)) and not isinstance(one, bool) and math.isfinite(one)
        for one in found.values()
    )
    return found if good else {}


def find_differences(ranks: list[RankFigures]) -> list[Difference]:
    """Return the largest difference of each figure, if it is large enough; empty for one rank."""
    found = []
    for name in FIGURES if len(ranks) > 1 else ():
        candidates = []
        for number, one in enumerate(ranks):
            rest = ranks[:number] + ranks[number + 1 :]
            others = float(median(other.figures[name] for other in rest))
            candidates.append(Difference(one.rank, name, one.figures[name], others))
        most = max(candidates, key=lambda one: (abs(one.value - one.others), _unfavourable(one)))
        if abs(most.value - most.others) > _tolerance(most):
            found.append(most)
    return found


def _unfavourable(one: Difference) -> float:
    return -one.value if one.figure == "from_plan" else one.value


def _tolerance(one: Difference) -> float:
    if one.figure == "from_plan":
        return _DIFFERS
    least = _LEAST_BYTES if one.figure in BYTES else 0
    return max(least, _DIFFERS * abs(one.others))


def format_figure(name: str, value: float) -> str:
    """Format a figure as text: bytes with a unit, `from_plan` in percent."""
    if name in BYTES:
        return format_bytes(round(value))
    return f"{value:.0%}".replace("%", " %") if name == "from_plan" else f"{value:g}"
