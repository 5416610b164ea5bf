"""Programs in which each iteration asks for something that no plan expects: experts, sampling."""

import itertools
import warnings

import numpy as np
import pytest

from pgmo.allocator import tuning
from pgmo.allocator.session.session import Session
from pgmo.allocator.session.statistics import Phase
from tests.unit.allocator.simulated import LAYERS, Loop, SimulatedAdapter, open_session, run


class Noise:
    """Blocks of sizes that never come twice, each freed at once; more of them each time.

    With as many each time they would be larger and smaller iterations of one structure.
    """

    def __init__(self, adapter: SimulatedAdapter, requests: int, most: int = 1 << 12) -> None:
        self._adapter = adapter
        self._requests = itertools.count(requests)
        self._sizes = iter(np.random.default_rng(0).permutation(most) + most // 4 + 1)

    def __call__(self) -> None:
        for size in itertools.islice(self._sizes, next(self._requests)):
            self._adapter.free(self._adapter.request(int(size)))


def disorderly(loop: Loop, session: Session, times: int) -> None:
    """Eight of 27 requests, and more, are in no plan."""
    noise = Noise(loop._adapter, 8)
    for _ in range(times):
        run(loop, session, 1, extra=noise)


def another_structure(adapter: SimulatedAdapter, session: Session, number: int) -> None:
    with session.iteration():
        for address in [adapter.request(5000 + 100 * number + at) for at in range(12)]:
            adapter.free(address)


def test_iterations_that_are_all_different_are_not_all_learned(adapter):
    loop = Loop(adapter, LAYERS)
    with open_session(adapter, patience=1000) as session:
        run(loop, session, 6)
        noise = Noise(adapter, 8, 1 << 14)
        run(loop, session, 120, extra=noise)
        assert session.summary().replans <= tuning.MOST_LESSONS


def test_lessons_go_on_when_order_returns(adapter):
    loop = Loop(adapter, LAYERS)
    with open_session(adapter, patience=1000) as session:
        run(loop, session, 6)
        disorderly(loop, session, 50)
        loop.drop()
        run(loop, session, 8)
        before = session.summary().replans
        loop.drop()
        another_structure(adapter, session, 1)
        another_structure(adapter, session, 1)
        assert session.summary().replans == before + 1
        assert session.history[-1].hit_rate == 1


def test_a_strange_iteration_now_and_then_is_no_disorder(adapter):
    loop = Loop(adapter, LAYERS)
    with open_session(adapter, patience=100) as session:
        run(loop, session, 6)
        for number in range(6):
            run(loop, session, 2)
            loop.drop()
            another_structure(adapter, session, number)
        assert session.summary().replans == 6


# --- noise --------------------------------------------------------------------------------------

LARGE = 1 << 18


def noisy(adapter, session, loop, times, noise=lambda: None):
    for _ in range(times):
        loop.drop()
        with session.iteration():
            noise()
            loop()


def test_an_arena_does_not_pay_where_most_bytes_have_no_slot(adapter):
    loop, noise = Loop(adapter, LAYERS), Noise(adapter, 30, LARGE)
    with open_session(adapter, patience=100) as session:
        noisy(adapter, session, loop, 6)
        with pytest.warns(UserWarning, match="less than 60% of their bytes in the arena"):
            noisy(adapter, session, loop, 20, noise)
        assert session.phase is Phase.BYPASS


def test_whatever_comes_no_block_lies_over_another():
    """The oracle refuses it. Blocks live on for a while, over iterations and plans."""
    adapter = SimulatedAdapter()
    random = np.random.default_rng(1)
    living = []

    def strays():
        for _ in range(int(random.integers(0, 8))):
            living.append(adapter.request(int(random.integers(1, 1 << 17))))
        while living and random.random() < 0.7:
            adapter.free(living.pop(int(random.integers(len(living)))))

    loop = Loop(adapter, LAYERS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with open_session(adapter, patience=100) as session:
            for turn in range(120):
                loop.scale = int(random.integers(1, 4)) if turn > 40 else 1
                run(loop, session, 1, extra=strays if turn > 6 else None)
    loop.finish()
    for address in living:
        adapter.free(address)
    assert adapter.engine.statistics()["live_slot_bytes"] == 0
