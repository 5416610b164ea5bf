"""Slow reference implementations of the packers and of the optimum."""

import numpy as np

from pgmo.packing.problem import Problem

Preference = tuple[float, ...]


def aligned(problem: Problem) -> np.ndarray:
    return -(-problem.size // problem.alignment) * problem.alignment


def begin(problem: Problem, i: int) -> int:
    """Return the begin of a block as the number of blocks that end by then, on a line."""
    return int(np.count_nonzero(problem.upper <= problem.lower[i]))


def end(problem: Problem, i: int) -> int:
    """Return the end of a block as the number of blocks that begin before it, on a line."""
    return int(np.count_nonzero(problem.lower < problem.upper[i]))


# Among blocks of equal preference, the paper chooses any. Here, the first to begin comes first, and
# then the first to end, so that the arena does not depend on the numbers of the blocks.


def by_lifetime(problem: Problem, i: int) -> Preference:
    size = aligned(problem)
    return (problem.upper[i] - problem.lower[i], size[i], -begin(problem, i), -end(problem, i))


def by_start(problem: Problem, i: int) -> Preference:
    life = problem.upper[i] - problem.lower[i]
    return (-begin(problem, i), life, aligned(problem)[i], -end(problem, i))


def by_size(problem: Problem, i: int) -> Preference:
    life = problem.upper[i] - problem.lower[i]
    return (aligned(problem)[i], life, -begin(problem, i), -end(problem, i))


def by_area(problem: Problem, i: int) -> Preference:
    life = problem.upper[i] - problem.lower[i]
    size = aligned(problem)
    area = float(size[i]) * float(life)
    return (area, life, size[i], -begin(problem, i), -end(problem, i))


def ticks_of(problem: Problem, i: int) -> list[int]:
    ticks = range(problem.lower[i], problem.upper[i])
    return [tick % problem.period if problem.period else tick for tick in ticks]


def skyline(problem: Problem, preference) -> list[int]:
    """Return offsets by section 3.2 of Sekiyama et al. 2018, tick by tick, on a line."""
    size = aligned(problem)
    height = [0] * int(problem.upper.max())
    unplaced = sorted(range(len(problem)), key=lambda i: preference(problem, i), reverse=True)
    offset = [-1] * len(problem)
    while unplaced:
        lowest = min(height)
        left = height.index(lowest)
        right = left
        while right < len(height) and height[right] == lowest:
            right += 1
        for i in unplaced:
            if problem.lower[i] >= left and problem.upper[i] <= right:
                offset[i] = lowest
                for tick in range(problem.lower[i], problem.upper[i]):
                    height[tick] = lowest + int(size[i])
                unplaced.remove(i)
                break
        else:
            neighbours = ([height[left - 1]] if left else []) + height[right : right + 1]
            height[left:right] = [min(neighbours)] * (right - left)
    return offset


def arena(problem: Problem, offset) -> int:
    return int((np.asarray(offset, np.int64) + aligned(problem)).max(initial=0))


def max_load(problem: Problem) -> int:
    size = aligned(problem)
    load: dict[int, int] = {}
    for i in range(len(problem)):
        for tick in ticks_of(problem, i):
            load[tick] = load.get(tick, 0) + int(size[i])
    return max(load.values(), default=0)


def optimum(problem: Problem) -> int:
    """Return the bytes of the smallest arena.

    First fit in the order of an optimum's offsets yields the optimum. All orders are tried, except
    those whose first blocks need as many bytes as the best arena so far.
    """
    size = aligned(problem).tolist()
    ticks = [set(ticks_of(problem, i)) for i in range(len(problem))]
    meets = [[bool(one & other) for other in ticks] for one in ticks]
    floor, best = max_load(problem), sum(size)

    def extend(placed: list[tuple[int, int, int]], rest: list[int], top: int) -> None:
        nonlocal best
        if top >= best or best == floor:
            return
        if not rest:
            best = top
        for i in rest:
            at = 0
            for low, high, other in placed:
                if low >= at + size[i]:
                    break
                if meets[i][other]:
                    at = max(at, high)
            spans = sorted([*placed, (at, at + size[i], i)])
            extend(spans, [j for j in rest if j != i], max(top, at + size[i]))

    extend([], list(range(len(problem))), 0)
    return best
