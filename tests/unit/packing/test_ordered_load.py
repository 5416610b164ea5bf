"""Tests of the bound of several streams: the heaviest set of blocks that are not ordered."""

import itertools

import numpy as np
import pytest

from pgmo.packing.ordered_load import ordered_load
from pgmo.profiler.ordering.order import Order
from pgmo.profiler.profile import Profile
from tests.unit.profiler.ordering.programs import at_random
from tests.unit.profiler.ordering.test_clocks import profile_of, ticks_behind

TURNS = 4


def heaviest(profile: Profile) -> int:
    """Return the ordered load in bytes, by trying all sets of blocks of `TURNS` iterations."""
    streams, table = ticks_behind(profile)
    ticks, planned = profile.ticks, np.flatnonzero(profile.turns > 0)

    def after(one: tuple[int, int], other: tuple[int, int]) -> bool:
        """Return whether the block `other` is requested after all uses of the block `one`."""
        (row, turn), (next_row, next_turn) = one, other
        column = streams.index(int(profile.stream[next_row]))
        at = profile.start[next_row] + next_turn * ticks
        return bool(at - turn * ticks >= table[row, column])

    # For each stream, the sets of its blocks that are live at a tick.
    alone = []
    for stream in streams:
        rows = [row for row in planned if profile.stream[row] == stream]
        found = [((), 0)]
        for tick in range(TURNS * ticks):
            lives = tuple(
                (row, turn)
                for row in rows
                for turn in range(-2, TURNS)
                if profile.start[row] <= tick - turn * ticks < profile.end[row]
            )
            found.append((lives, sum(int(profile.size[row]) for row, _ in lives)))
        alone.append(found)
    best = 0
    for sets in itertools.product(*alone):
        if sum(size for _, size in sets) <= best:
            continue
        parts = [lives for lives, _ in sets]
        pairs = itertools.permutations(range(len(parts)), 2)
        if not any(after(a, b) for i, j in pairs for a in parts[i] for b in parts[j]):
            best = sum(size for _, size in sets)
    return best


@pytest.mark.parametrize("seed", range(25))
def test_it_is_the_heaviest_set(seed):
    profile, _, _ = profile_of(at_random(seed, streams=2))
    if profile.order is None:
        return
    assert profile.max_load() <= ordered_load(profile) == heaviest(profile)


def test_streams_that_nothing_orders_need_the_sum_of_their_own():
    order = Order(tick=[], kind=[], stream=[], target=[], back=[])
    profile = Profile.from_columns(
        size=[5, 3, 2], start=[0, 1, 2], end=[1, 2, 3], stream=[0, 7, 7], ticks=3, order=order
    )
    assert profile.max_load() == 5
    assert ordered_load(profile) == 5 + 3


def test_streams_that_wait_for_each_other_need_what_requests_say():
    # Stream 0 requests and records an event, for which 7 waits. Then 7 does, and 0 waits.
    order = Order(
        tick=[1, 1, 1, 2, 2, 2],
        kind=[1, 4, 5, 1, 4, 5],
        stream=[0, 0, 7, 0, 7, 0],
        target=[0, -1, 1, 1, -1, 4],
        back=[0] * 6,
    )
    profile = Profile.from_columns(
        size=[5, 3], start=[0, 1], end=[1, 2], stream=[0, 7], ticks=2, order=order
    )
    assert ordered_load(profile) == 5


def test_without_an_order_nothing_is_known():
    profile = Profile.from_columns(size=[5], start=[0], end=[1], ticks=1)
    assert ordered_load(profile) is None


def test_blocks_without_slots_do_not_count():
    order = Order(tick=[], kind=[], stream=[], target=[], back=[])
    profile = Profile.from_columns(
        size=[5, 3], start=[0, 1], end=[1, -1], stream=[0, 7], ticks=2, order=order
    )
    assert ordered_load(profile) == 5
