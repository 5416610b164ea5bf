"""Tests that a repeated history is equal to the history of a longer run."""

import numpy as np

from pgmo.fit.laws.load import repeated
from pgmo.profiler.profile import Profile


def line(steps: int, sizes: tuple[int, ...] = (64, 32)) -> Profile:
    """Return a persistent block and steps, of which each frees a block of the step before."""
    size, start, end, tick = [512], [0], [10**6], 1
    for _ in range(steps):
        for number, one in enumerate(sizes):
            size.append(one)
            start.append(tick)
            # A step's first block lives into the next step, the others until the next request.
            end.append(tick + len(sizes) + 1 if number == 0 else tick + 1)
            tick += 1
    end = [min(one, tick) for one in end]
    return Profile.from_columns(size=size, start=start, end=end, ticks=tick, circular=False)


def columns(profile: Profile) -> list[list[int]]:
    order = np.argsort(profile.start, kind="stable")
    return [getattr(profile, name)[order].tolist() for name in ("size", "start", "end")]


def test_it_is_the_history_of_more_steps() -> None:
    longer, rows = repeated(line(3), (3, 5), 4)
    assert columns(longer) == columns(line(7))
    assert longer.size.tolist() == line(3).size[rows].tolist()


def test_steps_that_differ_are_not_repeated() -> None:
    profile = Profile.from_columns(
        size=[8, 4, 5], start=[0, 1, 2], end=[3, 2, 3], ticks=3, circular=False
    )
    longer, rows = repeated(profile, (1, 2), 4)
    assert longer is profile
    assert rows.tolist() == [0, 1, 2]
