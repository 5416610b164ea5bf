"""Pages of plans of several streams, compared with the pages in use at each tick."""

import numpy as np
import pytest

from pgmo.allocator.plans.layout import extents
from pgmo.allocator.plans.shared_pages import shared_pages
from pgmo.packing.plan import UNPLANNED
from pgmo.packing.planner import plan as make_plan
from pgmo.profiler.profile import NEVER, Profile

PAGE = 4096


def pages_in_use(plan):
    """Return the pages in use at each tick, as pairs of a stream and a page's number."""
    low = {stream: begin for stream, (begin, _) in extents(plan).items()}
    used = [set() for _ in range(plan.ticks)]
    for row in np.flatnonzero(plan.offset != UNPLANNED):
        start, end, stream = int(plan.start[row]), int(plan.end[row]), int(plan.stream[row])
        slots = [int(plan.offset[row])]
        ticks = {tick % plan.ticks for tick in range(start, end)}
        if plan.alternate[row] != UNPLANNED:
            slots.append(int(plan.alternate[row]))
            ticks = range(plan.ticks)
        for slot in slots:
            first = (slot - low[stream]) // PAGE
            last = (slot - low[stream] + int(plan.size[row]) - 1) // PAGE
            for tick in ticks:
                used[tick].update((stream, page) for page in range(first, last + 1))
    return used


def random_plan(seed, streams):
    random = np.random.default_rng(seed)
    ticks = int(random.integers(4, 40))
    start = np.arange(ticks)
    length = random.integers(1, 2 * ticks, ticks)
    end = np.where(random.random(ticks) < 0.1, NEVER, start + length)
    size = random.integers(1, 6 * PAGE, ticks)
    stream = random.integers(0, streams, ticks)
    return make_plan(
        Profile.from_columns(size=size, start=start, end=end, stream=stream, ticks=ticks)
    )


@pytest.mark.parametrize("seed", range(40))
def test_pages_are_at_least_those_in_use_at_once_and_at_most_those_of_all_arenas(seed):
    plan = random_plan(seed, streams=3)
    used = pages_in_use(plan)
    pages = shared_pages(plan, PAGE)
    assert max(map(len, used)) <= pages <= len(set().union(*used))


@pytest.mark.parametrize("seed", range(10))
def test_a_single_stream_shares_nothing(seed):
    plan = random_plan(seed, streams=1)
    assert shared_pages(plan, PAGE) == len(set().union(*pages_in_use(plan)))


def test_streams_in_turn_share_all_pages():
    columns = {"size": [3 * PAGE, 5 * PAGE], "start": [0, 1], "stream": [0, 7], "ticks": 2}
    assert shared_pages(make_plan(Profile.from_columns(**columns, end=[1, 2])), PAGE) == 5
    assert shared_pages(make_plan(Profile.from_columns(**columns, end=[2, 2])), PAGE) == 8


def test_columns_of_different_lengths_are_refused():
    from pgmo import _core

    one, two = np.zeros(1, np.int64), np.zeros(2, np.int64)
    with pytest.raises(ValueError, match="differ in length"):
        _core.count_shared_pages(one, one, two, one, one, ticks=1)
