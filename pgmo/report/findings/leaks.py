"""Blocks that accumulate: what an iteration leaves behind, iteration after iteration.

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
from pgmo.profiler.trace import MarkedBy
from pgmo.report.blocks.history import ALIVE, History, follow
from pgmo.report.blocks.origins import UNTAGGED, describe, size_classes
from pgmo.report.findings.moment import find_moment

_FEWEST = 4
"""Iterations below which a trace says nothing: the first one and the last are not counted."""

_LIKELY = 0.8
"""Share of the iterations that leave something, from which on a leak is likely."""

_PARTS = 3
"""Parts of the trace in each of which a leak must leave something."""


@dataclass(frozen=True)
class Leak:
    """An origin whose blocks accumulate.

    Args:
        origin: where the blocks are requested, in one line.
        tag: the same in its parts; None where it is not known.
        blocks: that were seen to stay, or that each iteration leaves, as far as one is known.
        size: their bytes.
        growth: bytes per iteration.
        first: iteration in which the first of them was requested, -1 for before the first whole
            one; 0 where only one iteration is known.
        confidence: "certain", "likely" or "possible"; of guessed iterations nothing is certain.
        why: what was seen.
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
    """What accumulates, largest growth first.

    Args:
        found: the leaks.
        judged: whether there was enough to tell; if not, an empty `found` means nothing.
        basis: what was looked at, in words.
        live: bytes known to be in use, from which leaks grow.
        guessed: whether nobody but the period of the requests tells what an iteration is.
    """

    found: tuple[Leak, ...]
    judged: bool
    basis: str
    live: int
    guessed: bool = False

    @property
    def growth(self) -> float:
        """Bytes per iteration, all leaks together."""
        return sum(leak.growth for leak in self.found)


def find_leaks(profile: Profile, history: History | None = None) -> Leaks:
    """Finds what accumulates over the iterations of a profile.

    A trace of four iterations or more says it best: an origin leaks if its blocks stay from each
    third of the trace, the first iteration and the last not counted. Without one, the persistent
    blocks of a steady iteration are asked for in each iteration and freed in none. Nothing is
    certain where the iterations themselves were guessed.

    Args:
        profile: the profile.
        history: of its trace, if it is at hand.
    """
    moment = find_moment(profile)
    if moment is not None:
        return Leaks((), False, "nothing was recorded", moment.size)
    if profile.trace is not None:
        history = history or follow(profile.trace)
        if history.iterations >= _FEWEST:
            return _of_trace(history)
    if profile.circular and profile.steady:
        return _of_iteration(profile)
    seen = 0 if history is None else history.iterations
    live = int(profile.size[profile.persistent].sum())
    return Leaks((), False, _why_not_known(profile, seen), live)


def _why_not_known(profile: Profile, iterations: int) -> str:
    """Say why nothing can be said of leaks, and what to do about it."""
    found = profile.meta.notes.get("iterations", "")
    _, _, refused = found.rpartition("as they came; ")
    if " are no iterations: " in refused:
        return (
            f"no iterations were recognised, as {refused}; if they are, `pgmo export FILE "
            "--to profile --iteration 0` makes a profile in which all of them are compared"
        )
    if iterations:
        counted = "1 iteration" if iterations == 1 else f"{iterations} iterations"
        return f"{counted} in the trace: too few to tell, {_FEWEST} are needed"
    if profile.trace is None:
        return "the profile has no trace of several iterations"
    return (
        f"no iterations were recognised, and {_FEWEST} are needed: record that many, with an "
        "optimizer of torch.optim or a profiler that steps"
    )


def _of_trace(history: History) -> Leaks:
    """Judges each origin by the iterations from which it left blocks behind."""
    count = history.iterations
    # The last iteration's blocks may be freed in the next one, and two buffers used in turn live
    # for two: where the trace is long enough, the last two do not count.
    stop = count - 1 if count == _FEWEST else count - 2
    stayed = (history.gone == ALIVE) & (history.iteration >= 0)
    guessed = history.trace.marked_by == MarkedBy.PERIOD
    rows = np.flatnonzero(stayed)
    tags, found = history.trace.tags, []
    for name, group in _groups(tags, history.tag, history.size, rows).items():
        born = history.iteration[group]
        inside = group[(born >= 1) & (born < stop)]
        per_iteration = np.bincount(
            history.iteration[inside] - 1, history.size[inside], minlength=stop - 1
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
                tag=_first_tag(tags, history.tag[group]),
                blocks=len(group),
                size=int(history.size[group].sum()),
                growth=float(per_iteration.mean()),
                first=int(born.min()),
                confidence=_confidence(share, same and not guessed),
                why=f"{with_some} of {len(per_iteration)} iterations leave blocks that stay"
                + (", each as many bytes" if same else ""),
            )
        )
    counted = f"{count} iterations of the trace" + (", guessed by their period" if guessed else "")
    basis = f"{counted}, the first and the last {count - stop} not counted"
    live = int(history.live().max(initial=0))
    return Leaks(_ordered(found), True, basis, live, guessed=guessed)


def _confidence(share: float, certain: bool) -> str:
    if certain:
        return "certain"
    return "likely" if share >= _LIKELY else "possible"


def _of_iteration(profile: Profile) -> Leaks:
    """The persistent blocks of a steady iteration."""
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
                why="requested in each iteration, and none that was recorded freed it",
            )
        )
    return Leaks(_ordered(found), True, "one iteration of a steady profile", _live(profile))


def _groups(
    tags: Sequence[Tag],
    tag: NDArray[np.int32],
    size: NDArray[np.int64],
    rows: NDArray[np.int64],
) -> dict[str, NDArray[np.int64]]:
    """Rows by the origins of their blocks."""
    groups: dict[str, list[int]] = {}
    for row, name in zip(rows.tolist(), _names(tags, tag[rows], size[rows]), strict=True):
        groups.setdefault(name, []).append(row)
    return {name: np.array(group) for name, group in groups.items()}


def _names(tags: Sequence[Tag], tag: NDArray[np.int32], size: NDArray[np.int64]) -> list[str]:
    """The origin of each block; blocks of unknown origin are told apart by their size class."""
    told = [describe(one) for one in tags]
    names = []
    for one, size_class in zip(tag.tolist(), size_classes(size), strict=True):
        name = told[one] if one >= 0 else UNTAGGED
        names.append(f"{UNTAGGED} blocks of {size_class}" if name == UNTAGGED else name)
    return names


def _first_tag(tags: Sequence[Tag], tag: NDArray[np.int32]) -> Tag | None:
    return tags[tag[0]] if tag[0] >= 0 else None


def _live(profile: Profile) -> int:
    """Bytes that the program is known to need at its peak."""
    if profile.trace is not None:
        return int(follow(profile.trace).live().max(initial=0))
    return profile.max_load() + int(profile.size[profile.persistent].sum())


def _ordered(found: Sequence[Leak]) -> tuple[Leak, ...]:
    return tuple(sorted(found, key=lambda leak: (-leak.growth, leak.origin)))
