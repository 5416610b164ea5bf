"""Search for the steady state: iterations that issue the same requests.

The `explanation` of a result names iterations that agree or, from `best_effort`, the difference.
"""

import numpy as np

from pgmo.profiler.iterations.iteration_kinds import Kind, Match, compare, first_difference
from pgmo.profiler.iterations.lifetimes import Steady
from pgmo.profiler.iterations.request_pairs import UNPAIRED, align
from pgmo.profiler.recording import ALIVE, Iteration


def find_steady(iterations: list[Iteration]) -> Steady | None:
    """Return the newest structure that at least two recorded iterations share, or None.

    Iterations need not be adjacent: training and evaluation may alternate.
    """
    return next(iter(find_all(iterations)), None)


def find_all(iterations: list[Iteration]) -> list[Steady]:
    """Find every structure that at least two recorded iterations share, the newest first."""
    plain = recorded = _with_requests(iterations)
    found = []
    # Exact repetitions are certain, so they come first; iterations at other sizes then join them.
    for seek in (_exact_reference, _fit_reference):
        while (reference := seek(plain)) is not None:
            steady = _gather(reference, plain, recorded)
            found.append(steady)
            plain = [iteration for iteration in plain if iteration.index not in steady.rows]
    return sorted(found, key=lambda steady: -max(steady.rows))


def find_repeated(iterations: list[Iteration]) -> list[Steady]:
    """Find the last iteration's structure, if all iterations since its first occurrence repeat it.

    Return an empty list if any of these iterations differs, or if there is only one. This takes a
    fraction of the time of `find_all`, which aligns every pair of iterations.
    """
    plain = _with_requests(iterations)
    same = [iteration for iteration in plain if iteration.same_requests(plain[-1])]
    if len(same) < 2 or same != plain[-len(same) :]:
        return []
    return [_gather(same[0], same, plain)]


def best_effort(iterations: list[Iteration]) -> Steady | None:
    """Return the last iteration with a recorded successor, or the only iteration.

    The result has the kind "none", and is for a plan if no iterations agree. Return None if there
    are no requests.
    """
    full = _with_requests(iterations)
    if not full:
        return None
    base = full[-2] if len(full) > 1 else full[-1]
    rows = {base.index: np.arange(len(base))}
    explanation = f"only iteration {base.index} has requests"
    if base is not full[-1]:
        # Align the next iteration, because it shows when blocks that outlive `base` are freed.
        rows[full[-1].index] = align(base, full[-1])
        explanation = first_difference(base, full[-1])
    followers = len(iterations) - 1 - base.index
    varying = np.zeros(len(base), np.bool_)
    return Steady("none", base.index, rows, varying, followers, explanation)


def _with_requests(iterations: list[Iteration]) -> list[Iteration]:
    return [iteration for iteration in iterations if len(iteration)]


def _exact_reference(iterations: list[Iteration]) -> Iteration | None:
    """Return the first iteration of the newest group that repeats exactly, or None."""
    for newer in reversed(iterations):
        same = [other for other in iterations if other.same_requests(newer)]
        if len(same) > 1:
            return same[0]
    return None


def _fit_reference(iterations: list[Iteration]) -> Iteration | None:
    """Return the longer iteration of the newest pair that fits, or None."""
    for at in range(len(iterations) - 1, 0, -1):
        for other in reversed(iterations[:at]):
            match = compare(other, iterations[at])
            if match.kind == "fit" and not _is_warm_up(match):
                return match.base
    return None


def _is_warm_up(match: Match) -> bool:
    """Return whether one of the two is a warm-up iteration, with requests that never recur.

    A warm-up iteration may be as short as others: the first step of SGD keeps copies of gradients
    as momentum, where later steps have temporaries. A warm-up iteration may also come later,
    because a gradient scaler may skip the first steps.
    """
    base, other, rows = match.base, match.other, match.rows
    if match.kind != "fit":
        return False
    paired = rows != UNPAIRED
    only_in_base = np.ones(len(base), np.bool_)
    only_in_base[rows[paired]] = False
    older, own = (base, only_in_base) if base.index < other.index else (other, ~paired)
    lives_on = older.gone == ALIVE
    if np.any(own) and lives_on[own].mean() > lives_on.mean():
        return True
    if 0 not in (base.index, other.index):
        return False
    if base.index == 0 and len(base) > len(other):
        return True
    dies_in_base = np.ones(len(base), np.bool_)
    dies_in_base[rows[paired]] = other.gone[paired] != ALIVE
    dies_in_other = np.ones(len(other), np.bool_)
    dies_in_other[paired] = base.gone[rows[paired]] != ALIVE
    first, dies_later = (base, dies_in_base) if base.index == 0 else (other, dies_in_other)
    return bool(np.any((first.gone == ALIVE) & dies_later))


def _gather(reference: Iteration, plain: list[Iteration], recorded: list[Iteration]) -> Steady:
    """Collect the iterations that agree. If a longer iteration fits, it becomes the reference."""
    matches = [compare(reference, other) for other in plain if other is not reference]
    matches = [match for match in matches if not _is_warm_up(match)]
    longest = max((m.base for m in matches if m.kind == "fit"), key=len, default=reference)
    if len(longest) > len(reference):
        return _gather(longest, plain, recorded)
    matches = [match for match in matches if match.kind != "none"]
    rows = {reference.index: np.arange(len(reference))}
    varying = np.zeros(len(reference), np.bool_)
    for match in matches:
        other = match.other if match.base is reference else match.base
        rows[other.index] = match.rows
        varying |= match.varying
    kind: Kind = "exact" if all(match.kind == "exact" for match in matches) else "fit"
    fits = [match.explanation for match in matches if match.kind == "fit"]
    explanation = (fits or [match.explanation for match in matches])[0]
    return Steady(
        kind=kind,
        reference=reference.index,
        rows=rows,
        varying=varying,
        followers=sum(one.index > reference.index for one in recorded),
        explanation=explanation,
    )
