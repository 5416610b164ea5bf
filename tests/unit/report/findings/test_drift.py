from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from pgmo.profiler.profile import Profile
from pgmo.profiler.trace import Trace
from pgmo.report.findings.drift import find_drift
from tests.unit.report.loops import Loop, train

SIZES = st.lists(st.sampled_from([64, 128, 256]), max_size=8)


def profile_of(trace: Trace) -> Profile:
    return Profile.from_columns(size=[8], start=[0], end=[1], ticks=1, circular=False, trace=trace)


def test_iterations_after_the_optimizers_state_is_made_do_not_drift():
    drift = find_drift(profile_of(train(6)))
    assert (drift.compared, drift.changed) == (4, 1)


def test_streams_count_as_much_as_sizes():
    loop = Loop()
    for stream in (0, 0, 7):
        loop.mark()
        loop.free(loop.alloc(64, stream=stream))
    loop.mark()
    drift = find_drift(profile_of(loop.trace()))
    assert (drift.compared, drift.changed) == (2, 1)


@given(st.lists(SIZES, min_size=2, max_size=5))
def test_iterations_of_other_sizes_or_another_order_differ(iterations):
    loop = Loop()
    for sizes in iterations:
        loop.mark()
        for size in sizes:
            loop.free(loop.alloc(size))
    loop.mark()  # completes the last iteration
    drift = find_drift(profile_of(loop.trace()))
    pairs = list(pairwise(iterations))
    assert drift.compared == len(pairs)
    assert drift.changed == sum(before != after for before, after in pairs)


def test_varying_blocks_of_a_profile_are_counted_without_a_trace():
    profile = Profile.from_columns(
        size=[8, 100, 30], start=[0, 1, 2], end=[3, 3, 3], ticks=3, varying=[False, True, True]
    )
    drift = find_drift(profile)
    assert (drift.compared, drift.varying, drift.varying_size) == (0, 2, 130)
