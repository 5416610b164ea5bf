"""Programs with unplanned requests in each iteration, as with experts or sampling."""

import itertools
import warnings

import numpy as np
import pytest

from pgmo.allocator.session.statistics import Phase
from tests.unit.allocator.simulated import LAYERS, Loop, SimulatedAdapter, open_session, run


class Noise:
    """Blocks of unique sizes, each freed at once, in a number that grows with each iteration.

    With a constant number, the iterations would have one structure with varying sizes.
    """

    def __init__(self, adapter: SimulatedAdapter, requests: int, most: int = 1 << 12) -> None:
        self._adapter = adapter
        self._requests = itertools.count(requests)
        self._sizes = iter(np.random.default_rng(0).permutation(most) + most // 4 + 1)

    def __call__(self) -> None:
        for size in itertools.islice(self._sizes, next(self._requests)):
            self._adapter.free(self._adapter.request(int(size)))


def test_iterations_that_are_all_different_are_recorded_ever_more_rarely(adapter):
    loop = Loop(adapter, LAYERS)
    with open_session(adapter) as session:
        run(loop, session, 6)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run(loop, session, 200, extra=Noise(adapter, 8, 1 << 16))
        assert session.summary().recorded < 80


def test_an_iteration_that_differs_now_and_then_is_not_planned(adapter):
    loop = Loop(adapter, LAYERS)
    with open_session(adapter) as session:
        run(loop, session, 11)
        loop.drop()
        with session.iteration():
            for address in [adapter.request(5000 + at) for at in range(12)]:
                adapter.free(address)
        run(loop, session, 5)
        assert session.summary().recorded == 4
        assert session.summary().plans == 1


def test_structures_in_turn_are_recorded_until_each_has_come_twice(adapter):
    """One iteration in four has another structure, as with lazy regularisation."""
    one, other = Loop(adapter, LAYERS), Loop(adapter, [777 * (at + 1) for at in range(12)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with open_session(adapter) as session:
            run(one, session, 6)
            for _ in range(10):
                run(one, session, 3)
                one.drop()
                run(other, session, 1)
                other.drop()
            assert session.summary().plans == 2
            assert all(each.hit_rate == 1 for each in session.history[-8:])


# --- noise --------------------------------------------------------------------------------------

LARGE = 1 << 18


def noisy(adapter, session, loop, times, noise=lambda: None):
    for _ in range(times):
        loop.drop()
        with session.iteration():
            noise()
            loop()


def test_a_plan_that_serves_too_little_is_removed(adapter):
    loop, noise = Loop(adapter, LAYERS), Noise(adapter, 30, LARGE)
    with open_session(adapter) as session:
        noisy(adapter, session, loop, 6)
        with pytest.warns(UserWarning, match="do not count.: recording again"):
            noisy(adapter, session, loop, 20, noise)
        assert adapter.engine.statistics()["arenas"] == 0
        assert Phase.BACKOFF in {one.phase for one in session.history}
        assert "iterations do not repeat" in session.summary().waits
