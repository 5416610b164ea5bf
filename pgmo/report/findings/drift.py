"""How far iterations differ from each other: in number, size and order of their requests."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgmo.profiler.profile import Profile
from pgmo.report.blocks.history import History, follow


@dataclass(frozen=True)
class IterationChange:
    """An iteration beside the one before it.

    Args:
        iteration: its number; 0 is the first that was seen from its beginning.
        requests: that it made.
        size: bytes that it requested in all.
        added: requests of a size that the one before did not make, or made less often.
        removed: requests of the one before that it did not make.
        moved: requests that both made, but at another place in the order.

    Example:
        >>> IterationChange(1, 100, 2**20, added=2, removed=2, moved=0).same
        False
    """

    iteration: int
    requests: int
    size: int
    added: int
    removed: int
    moved: int

    @property
    def same(self) -> bool:
        """Whether it made the same requests in the same order."""
        return not (self.added or self.removed or self.moved)


@dataclass(frozen=True)
class Drift:
    """What changes from iteration to iteration.

    Args:
        steps: iterations of the trace but for the first and the last, which may be cut short.
        varying: blocks of the profile whose size is not the same in all recorded iterations.
        varying_size: bytes of these at their largest.
        steady: whether the profile found two iterations that agree.

    Example:
        >>> profile = Profile.from_columns(size=[8], start=[0], end=[1], ticks=1, varying=[True])
        >>> find_drift(profile).varying
        1
    """

    steps: tuple[IterationChange, ...]
    varying: int
    varying_size: int
    steady: bool

    @property
    def changed(self) -> int:
        """Iterations that differ from the one before."""
        return sum(not step.same for step in self.steps)


def find_drift(profile: Profile, history: History | None = None) -> Drift:
    """Compares the iterations of a profile's trace with each other, and counts varying blocks.

    Args:
        profile: the profile.
        history: of its trace, if it is at hand.

    Example:
        >>> find_drift(Profile.from_columns(size=[8], start=[0], end=[1], ticks=1)).steps
        ()
    """
    steps: tuple[IterationChange, ...] = ()
    if profile.trace is not None:
        steps = _steps(history or follow(profile.trace))
    return Drift(
        steps=steps,
        varying=int(profile.varying.sum()),
        varying_size=int(profile.size[profile.varying].sum()),
        steady=profile.steady,
    )


def _steps(history: History) -> tuple[IterationChange, ...]:
    numbers = range(history.iterations - 1)  # the last may be cut short
    bounds = np.searchsorted(history.iteration, range(history.iterations))
    parts = [history.size[bounds[i] : bounds[i + 1]] for i in numbers]
    streams = [history.trace.stream[history.born[bounds[i] : bounds[i + 1]]] for i in numbers]
    steps = []
    for number in numbers[1:]:
        both = np.concatenate([parts[number - 1], parts[number]]).astype(np.uint64)
        stream = np.concatenate([streams[number - 1], streams[number]])
        # Requests are told apart by size and stream; each pair of the two becomes one number.
        _, shape = np.unique(np.stack([both, stream]), axis=1, return_inverse=True)
        before, after = np.split(shape.ravel(), [len(parts[number - 1])])
        old, new = _numbered(before), _numbered(after)
        common_old, common_new = np.isin(old, new), np.isin(new, old)
        moved = np.count_nonzero(before[common_old] != after[common_new])
        steps.append(
            IterationChange(
                iteration=number,
                requests=len(after),
                size=int(parts[number].sum()),
                added=int(np.count_nonzero(~common_new)),
                removed=int(np.count_nonzero(~common_old)),
                moved=int(moved),
            )
        )
    return tuple(steps)


def _numbered(shape: NDArray[np.int64]) -> NDArray[np.int64]:
    """Tells equal shapes apart by how many of them came before: one number for both, shape (n,)."""
    order = np.argsort(shape, kind="stable")
    ranked = shape[order]
    first = np.append(True, np.diff(ranked) != 0)[: len(ranked)]
    begins = np.maximum.accumulate(np.where(first, np.arange(len(ranked)), 0))
    occurrence = np.empty(len(shape), np.int64)
    occurrence[order] = np.arange(len(ranked)) - begins
    return shape.astype(np.int64) * 2**31 + occurrence
