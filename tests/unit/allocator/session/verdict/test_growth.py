"""Sentences about live memory that grows from iteration to iteration."""

import random

import pytest

from pgmo import _core
from pgmo.allocator.session.verdict.growth import LiveGrowth, find_growth, origin_of_persistent
from pgmo.profiler.profile import NEVER, Profile
from pgmo.profiler.tag import Tag

MIB = 1 << 20


def levels(live, above=100 * MIB):
    """Return spans of one iteration each, with peaks at a constant distance above the levels."""
    spans, peak = [], 0
    for size in live:
        peak = max(peak, size + above)
        spans.append((size, peak))
    return spans


def test_a_leak_is_seen_from_the_tenth_iteration_on():
    sizes = [0, *(500 * MIB + 3 * MIB * i for i in range(9))]
    assert find_growth(1, levels(sizes[:9])) is None
    assert find_growth(1, levels(sizes)) == LiveGrowth(3 * MIB, 21 * MIB, 7)


def test_a_wider_span_counts_its_iterations():
    found = find_growth(4, levels([100 * MIB + 8 * MIB * i for i in range(10)]))
    assert found == LiveGrowth(2 * MIB, 64 * MIB, 32)


def test_a_leak_of_each_200th_iteration_is_seen_in_pairs_of_spans():
    found = find_growth(128, levels([500 * MIB + 50 * MIB * (128 * i // 200) for i in range(32)]))
    assert found is not None
    assert found.rate * 200 == pytest.approx(50 * MIB, rel=0.1)


def test_growth_that_has_stopped_is_not_kept_by_pairs_of_spans():
    sizes = [MIB * 10 * i for i in range(30)]
    assert find_growth(1, levels([*sizes, sizes[-1]])) is not None
    assert find_growth(1, levels([*sizes, sizes[-1], sizes[-1]])) is None


def test_cycles_that_the_collector_frees_now_and_then_still_grow():
    live, sizes = 200 * MIB, []
    for i in range(30):
        live += 96 * MIB if i % 9 else -200 * MIB
        sizes.append(live)
    found = find_growth(1, levels(sizes))
    assert found is not None
    assert 50 * MIB < found.rate < 96 * MIB


@pytest.mark.parametrize(
    "sizes",
    [
        [500] * 30,
        [100, 200, 500, *[700] * 20],  # optimizer state that is allocated late
        [*range(0, 160, 10), *[160] * 16],  # a cache that has filled up
        [160 - 160 // (i + 1) for i in range(30)],  # a cache that fills more and more slowly
        [500 + 50 * (i % 4) for i in range(30)],  # structures in turn
        [500, 900] * 15,  # evaluation
        [500 + i // 16 for i in range(30)],  # too little to report
    ],
)
def test_healthy_programs_get_no_word(sizes):
    for count in range(1, len(sizes) + 1):
        found = find_growth(1, levels([size * MIB for size in sizes[:count]]))
        assert found is None or count <= 18  # while a cache fills up, memory does grow


@pytest.mark.parametrize("seed", range(20))
def test_lengths_at_random_get_no_word(seed):
    draw = random.Random(seed)
    sizes = [500 * MIB + draw.randrange(300 * MIB) for _ in range(200)]
    spans = _of_engine(sizes)
    assert find_growth(*spans) is None


def test_batches_that_get_longer_are_no_growth():
    # The live bytes after an iteration grow, and the peak grows three times as much.
    spans = [((500 + 10 * i) * MIB, (900 + 30 * i) * MIB) for i in range(20)]
    assert find_growth(1, spans) is None


def _of_engine(sizes):
    """Return the levels of an engine that ends an iteration at each of these sizes."""
    engine = _core.Engine()
    engine.start_recording()
    address = 1 << 40
    held = 0
    for size in sizes:
        if held:
            engine.release(address)
        engine.adopt(address, size)
        held = size
        engine.end_iteration()
    return engine.live_levels()


def test_an_engine_keeps_the_least_of_each_span_in_constant_memory():
    width, spans = _of_engine([MIB * (1 + i) for i in range(100)])
    assert width == 4
    assert [live for live, _ in spans] == [MIB * (1 + 4 * i) for i in range(25)]
    assert [peak for _, peak in spans] == [MIB * (4 + 4 * i) for i in range(25)]


def test_levels_of_an_earlier_session_are_forgotten():
    engine = _core.Engine()
    engine.end_iteration()
    assert len(engine.live_levels()[1]) == 1
    engine.forget_levels()
    assert engine.live_levels() == (1, [])


def test_the_origin_is_what_requests_most_of_what_stays():
    tags = (Tag("Net.a", "aten.mm", "forward", "net.py:3 in forward"), Tag("Net.b", "", "forward"))
    profile = Profile.from_columns(
        size=[100, 60, 60, 900],
        start=[0, 1, 2, 3],
        end=[NEVER, NEVER, NEVER, 4],
        tag=[1, 0, 0, 1],
        ticks=4,
        tags=tags,
    )
    assert origin_of_persistent(profile) == "net.py:3 in forward, Net.a, aten.mm (forward)"
