"""Leaks: blocks that accumulate from iteration to iteration.

born in iteration     0     1     2     3     4     5     alive when the trace ends
optimizer state      ###                                  warm-up: no leak
kept losses           #     #     #     #     #     #     a leak
gradients                                           #     freed by the next iteration: no leak
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgmo.profiler.profile import Profile
from pgmo.profiler.tag import Tag
from pgmo.profiler.trace import MarkedBy, Trace
from pgmo.profiler.trace_blocks import NOT_FREED, live_bytes
from pgmo.report.blocks.origins import UNTAGGED, describe, size_classes
from pgmo.report.findings.moment import find_moment

_FEWEST = 4
"""Minimum number of iterations in an examined trace, including the first and the last."""

_LIKELY = 0.8
"""A leak in at least this share of the iterations is likely. Below it, it is only possible."""

_PARTS = 3
"""Number of parts of the trace. A leak must leave blocks in each part."""


@dataclass(frozen=True)
class Leak:
    """Origin whose blocks accumulate.

    Args:
        origin: line of code, module, operator and phase of the requests, in one line.
        tag: the origin's tag; None if unknown.
        blocks: number of blocks that were never freed; per iteration if only one iteration is
            known.
        size: bytes of the blocks that were never freed.
        growth: bytes per iteration.
        first: iteration that requested the first unfreed block; 0 if only one iteration is known.
        confidence: "certain", "likely" or "possible"; never certain if iterations were guessed.
        why: the observation, in words.
    """

    origin: str
    tag: Tag | None
    blocks: int
    size: int
    growth: float
    first: int
    confidence: str
    why: str


@dataclass(frozen=True)
class Leaks:
    """Leaks of a profile, largest growth first.

    Args:
        found: the leaks.
        judged: whether the data was sufficient to find leaks. If not, `found` is empty.
        basis: the examined data, in words.
        live: peak of the live bytes, as far as known.
        guessed: whether iterations were derived only from the period of the requests.
    """

    found: tuple[Leak, ...]
    judged: bool
    basis: str
    live: int
    guessed: bool = False

    @property
    def growth(self) -> float:
        """Bytes per iteration of all leaks together."""
        return sum(leak.growth for leak in self.found)


def find_leaks(profile: Profile) -> Leaks:
    """Find the blocks that accumulate over a profile's iterations.

    If the trace has at least four iterations, it is divided into thirds. An origin leaks if some of
    its blocks from each third are never freed. The first iteration and the last one or two do not
    count. With a shorter trace or none, the persistent blocks of a steady, repeating iteration are
    leaks. In all other profiles, leaks are not known.
    """
    moment = find_moment(profile)
    if moment is not None:
        return Leaks((), False, "the file has no history", moment.size)
    trace = profile.trace
    if trace is not None and trace.iterations >= _FEWEST:
        return _of_trace(trace)
    if profile.circular and profile.steady:
        return _of_iteration(profile)
    seen = 0 if trace is None else trace.iterations
    live = int(profile.size[profile.persistent].sum())
    return Leaks((), False, _why_not_known(profile, seen), live)


def _why_not_known(profile: Profile, iterations: int) -> str:
    """Return why leaks are unknown and, if known, a remedy."""
    found = profile.meta.notes.get("iterations", "")
    _, _, refused = found.rpartition("as one sequence; ")
    if " are not iterations: " in refused:
        return (
            f"no iterations were recognised: {refused}. If they are iterations, pass their "
            "number of requests: `pgmo stats --leaks --every N FILE`"
        )
    if iterations:
        counted = "1 iteration" if iterations == 1 else f"{iterations} iterations"
        return f"{counted} in the trace; at least {_FEWEST} are needed"
    if profile.trace is None:
        return "the profile has no trace of several iterations"
    return (
        f"no iterations were recognised; record at least {_FEWEST}, with an optimizer of "
        "torch.optim or a profiler whose step() is called"
    )


def _of_trace(trace: Trace) -> Leaks:
    blocks, count = trace.blocks, trace.iterations
    # An iteration after the trace may free blocks of the last iteration, and two alternating
    # buffers live for two iterations. So in longer traces, the last two iterations do not count.
    stop = count - 1 if count == _FEWEST else count - 2
    stayed = (blocks.freed == NOT_FREED) & (blocks.iteration >= 0)
    guessed = trace.marked_by == MarkedBy.PERIOD
    rows = np.flatnonzero(stayed)
    found = []
    for name, group in _groups(trace.tags, blocks.tag, blocks.size, rows).items():
        born = blocks.iteration[group]
        inside = group[(born >= 1) & (born < stop)]
        per_iteration = np.bincount(
            blocks.iteration[inside] - 1, blocks.size[inside], minlength=stop - 1
        )
        parts = np.array_split(per_iteration, min(_PARTS, stop - 1))
        if not all(part.any() for part in parts):
            continue
        with_some = int(np.count_nonzero(per_iteration))
        share = with_some / len(per_iteration)
        same = len(set(per_iteration.tolist())) == 1
        found.append(
            Leak(
                origin=name,
                tag=_first_tag(trace.tags, blocks.tag[group]),
                blocks=len(group),
                size=int(blocks.size[group].sum()),
                growth=float(per_iteration.mean()),
                first=int(born.min()),
                confidence=_confidence(share, same and not guessed),
                why=f"{with_some} of {len(per_iteration)} iterations leave blocks that are never "
                f"freed{', the same number of bytes each time' if same else ''}",
            )
        )
    derived = ", derived from the period of the requests" if guessed else ""
    basis = (
        f"{count} iterations of the trace{derived}, without the first and the last {count - stop}"
    )
    live = int(live_bytes(trace).max(initial=0))
    return Leaks(_ordered(found), True, basis, live, guessed=guessed)


def _confidence(share: float, certain: bool) -> str:
    if certain:
        return "certain"
    return "likely" if share >= _LIKELY else "possible"


def _of_iteration(profile: Profile) -> Leaks:
    found = []
    rows = np.flatnonzero(profile.persistent)
    for name, group in _groups(profile.tags, profile.tag, profile.size, rows).items():
        size = int(profile.size[group].sum())
        found.append(
            Leak(
                origin=name,
                tag=_first_tag(profile.tags, profile.tag[group]),
                blocks=len(group),
                size=size,
                growth=float(size),
                first=0,
                confidence="likely",
                why="requested in each iteration, and freed in none of the recorded ones",
            )
        )
    return Leaks(_ordered(found), True, "one iteration of a steady profile", _live(profile))


def _groups(
    tags: Sequence[Tag],
    tag: NDArray[np.int32],
    size: NDArray[np.int64],
    rows: NDArray[np.int64],
) -> dict[str, NDArray[np.int64]]:
    """Group rows by the origins of their blocks. Unknown origins are grouped by size class."""
    described = [describe(one) for one in tags]
    groups: dict[str, list[int]] = {}
    for row, size_class in zip(rows.tolist(), size_classes(size[rows]), strict=True):
        name = described[tag[row]] if tag[row] >= 0 else UNTAGGED
        if name == UNTAGGED:
            name = f"{UNTAGGED} blocks of {size_class}"
        groups.setdefault(name, []).append(row)
    return {name: np.array(group) for name, group in groups.items()}


def _first_tag(tags: Sequence[Tag], tag: NDArray[np.int32]) -> Tag | None:
    return tags[tag[0]] if tag[0] >= 0 else None


def _live(profile: Profile) -> int:
    """Return the peak of the live bytes, as far as the profile shows."""
    if profile.trace is not None:
        return int(live_bytes(profile.trace).max(initial=0))
    return profile.max_load() + int(profile.size[profile.persistent].sum())


def _ordered(found: Sequence[Leak]) -> tuple[Leak, ...]:
    return tuple(sorted(found, key=lambda leak: (-leak.growth, leak.origin)))
