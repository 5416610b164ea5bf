from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pgmo.profiler.profile import Profile
from pgmo.profiler.trace import Trace
from pgmo.report.findings.drift import find_drift
from tests.unit.report.loops import Loop, train

SIZES = st.lists(st.sampled_from([64, 128, 256]), max_size=8)


def drift_of(iterations: list[list[int]]):
    loop = Loop()
    for sizes in iterations:
        loop.mark()
        for size in sizes:
            loop.free(loop.alloc(size))
    loop.mark()  # so that the last one is whole
    return find_drift(profile_of(loop.trace()))


def profile_of(trace: Trace) -> Profile:
    return Profile.from_columns(size=[8], start=[0], end=[1], ticks=1, circular=False, trace=trace)


def test_equal_iterations_do_not_drift():
    drift = find_drift(profile_of(train(6)))
    # The first iteration makes optimizer state; the next one does not.
    assert [step.same for step in drift.steps] == [False, True, True, True]
    assert (drift.steps[0].added, drift.steps[0].removed) == (0, 1)
    assert drift.changed == 1


def test_number_size_and_order_are_told_apart():
    drift = drift_of([[64, 128], [64, 128, 64], [64, 128, 256], [256, 128, 64], [256, 128, 64]])
    changes = [(step.added, step.removed, step.moved) for step in drift.steps]
    assert changes == [(1, 0, 0), (1, 1, 0), (0, 0, 2), (0, 0, 0)]
    assert [(step.requests, step.size) for step in drift.steps][:2] == [(3, 256), (3, 448)]


def test_streams_count_as_much_as_sizes():
    loop = Loop()
    for stream in (0, 0, 7):
        loop.mark()
        loop.free(loop.alloc(64, stream=stream))
    loop.mark()
    steps = find_drift(profile_of(loop.trace())).steps
    assert [(step.added, step.removed) for step in steps] == [(0, 0), (1, 1)]


@given(st.lists(SIZES, min_size=2, max_size=5))
def test_additions_and_removals_are_the_differences_of_multisets(iterations):
    steps = drift_of(iterations).steps
    assert len(steps) == len(iterations) - 1
    for step, before, after in zip(steps, iterations, iterations[1:], strict=False):
        assert step.added == (Counter(after) - Counter(before)).total()
        assert step.removed == (Counter(before) - Counter(after)).total()
        assert step.same == (before == after)


def test_varying_blocks_of_a_profile_are_counted_without_a_trace():
    profile = Profile.from_columns(
        size=[8, 100, 30], start=[0, 1, 2], end=[3, 3, 3], ticks=3, varying=[False, True, True]
    )
    drift = find_drift(profile)
    assert (drift.steps, drift.varying, drift.varying_size) == ((), 2, 130)
