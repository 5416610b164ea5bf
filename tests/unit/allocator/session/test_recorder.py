"""Iterations that are recorded with tags."""

import random
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

import pytest

from pgmo.allocator import heuristics
from pgmo.allocator.session import recorder
from tests.unit.allocator.simulated import SimulatedAdapter, open_session


class CountingTagger:
    """Tagger that counts the tagged iterations."""

    tags = ()
    compiled = False
    entered = 0

    def __init__(self, *_: object) -> None:
        pass

    def __enter__(self) -> "CountingTagger":
        CountingTagger.entered += 1
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        pass


@pytest.fixture
def tagged(monkeypatch):
    monkeypatch.setattr(recorder, "Tagger", CountingTagger)
    monkeypatch.setattr(CountingTagger, "entered", 0)
    return lambda: CountingTagger.entered


def iterations_without_repetition(adapter, times):
    chance = random.Random(1)
    with open_session(adapter, tags=True) as session:
        for _ in range(times):
            with session.iteration():
                for _ in range(chance.randint(5, 50)):
                    adapter.free(adapter.request(64 * chance.randint(1, 10_000)))
        return session.summary().recorded


def test_one_iteration_is_tagged_however_often_a_program_is_recorded(adapter, tagged):
    assert iterations_without_repetition(adapter, 60) > 10
    assert tagged() == 1


@pytest.mark.parametrize("saves", [False, True])
def test_by_default_a_session_tags_only_if_it_saves(adapter, tagged, tmp_path, saves):
    with open_session(adapter, tags=None, save=tmp_path if saves else None) as session:
        for _ in range(6):
            iterate(session, adapter)
    assert tagged() == saves


def test_another_one_is_tagged_after_many_iterations(adapter, tagged, monkeypatch):
    monkeypatch.setattr(heuristics, "current", heuristics.Heuristics(longest_backoff=16))
    iterations_without_repetition(adapter, 60)
    assert 1 < tagged() <= 4


def test_one_thread_tags_at_a_time(adapter, tagged):
    other = SimulatedAdapter()
    other.device = "cuda:0"
    with open_session(adapter, tags=True) as first, ThreadPoolExecutor(1) as thread:
        second = open_session(other, tags=True)
        thread.submit(second.__enter__).result()
        assert tagged() == 1
        iterate(first, adapter)
        thread.submit(iterate, second, other).result()
        assert tagged() == 2
        second.close()


def iterate(session, adapter):
    with session.iteration():
        adapter.free(adapter.request(64))
