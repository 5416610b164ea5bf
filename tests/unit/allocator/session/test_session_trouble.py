"""Sessions whose slots stay occupied, whose memory or disk is full, or whose program changes."""

import threading
import warnings

import pytest

from pgmo.allocator.session import installer as installing
from pgmo.errors import AdapterError, FileError, SessionError
from tests.unit.allocator.simulated import LAYERS, Loop, SimulatedAdapter, open_session, run


def test_blocks_that_never_die_hold_their_slots_and_nothing_else(adapter):
    loop = Loop(adapter, LAYERS)
    squatters = []

    def settle():
        squatters.extend(adapter.request(size) for size in reversed(LAYERS[1:]))

    with open_session(adapter) as session:
        run(loop, session, 6)
        run(loop, session, 1, extra=settle)
        assert session.history[-1].hits > 0
        run(loop, session, 6)
        last = session.history[-1]
        assert 0 < last.misses["occupied"] + last.misses["late"] <= 2 * len(squatters)
        assert last.hits == last.requests - last.misses["occupied"] - last.misses["late"]
        for address in squatters:
            adapter.free(address)
        run(loop, session, 1)
        assert session.history[-1].hit_rate == 1
        assert len(adapter.arenas[0]) == adapter.engine.statistics()["arenas"] == 1


class Card:
    """Limit of a framework's arenas.

    Args:
        framework: framework whose arenas are limited.
        limit: bytes of the largest arena.
    """

    def __init__(self, adapter, limit):
        self._take = adapter.take_arena
        self.limit = limit
        self.refused = 0

    def take_arena(self, size, stream):
        if size > self.limit:
            self.refused += 1
            raise AdapterError("no memory")
        return self._take(size, stream)


def test_no_memory_for_a_larger_arena_leaves_the_old_plans_serving(adapter, monkeypatch):
    loop = Loop(adapter, LAYERS)
    with open_session(adapter) as session:
        for loop.scale in (3, 4, 3, 4, 3, 4):
            run(loop, session, 1)
        card = Card(adapter, limit=session.plan.arena)
        monkeypatch.setattr(adapter, "take_arena", card.take_arena)
        loop.scale = 5
        with pytest.warns(UserWarning, match="no memory; the previous plans serve"):
            run(loop, session, 1)
        for loop.scale in (3, 4, 5, 4, 5, 3, 4):
            run(loop, session, 1)
        fits = [one for one in session.history[7:] if not one.misses["too_large"]]
        assert len(fits) == 5
        assert all(one.hit_rate == 1 for one in fits)
        assert card.refused == 1  # the session does not repeat the request
        assert session.plan.arena == card.limit
        loop.finish()
    now = adapter.engine.statistics()
    assert now["arenas"] == now["live_slot_bytes"] == 0


@pytest.mark.parametrize("longer_first", [True, False])
def test_growth_belongs_to_the_plan_that_outgrew(adapter, longer_first):
    """Two structures in turn both grow; a request of one may have the other's ordinal."""
    train, evaluate = Loop(adapter, LAYERS), Loop(adapter, [n << 20 for n in range(1, 4)])
    loops = (train, evaluate) if longer_first else (evaluate, train)

    def one(loop, scale):
        loop.scale = scale
        with session.iteration():
            loop()
        loop.drop()  # wrapping blocks would occupy the other plan's slots

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with open_session(adapter) as session:
            for loop in loops:
                for scale in (2, 4, 3, 4, 2, 4, 3, 4, 2, 3):
                    one(loop, scale)
            for scale in (4, 3, *[9, 9, 8, 9] * 12):
                for loop in loops:
                    one(loop, scale)
            assert {len(planned.plan) for planned in session._lifecycle._plans.all} >= {10, 19}
            assert all(one.hit_rate == 1 for one in session.history[-40:])


def test_lengths_that_rise_step_by_step_are_not_planned_at_every_step(adapter):
    loop = Loop(adapter, LAYERS)
    with open_session(adapter) as session:
        for scale in range(100, 400):
            loop.scale = scale
            run(loop, session, 1)
        assert session.summary().replans <= 20
        assert session.summary().recorded <= 5
    assert session.plan.arena <= _arena_of(LAYERS, 399)


def _arena_of(layers, scale):
    """Return the arena of a loop with one length."""
    adapter = SimulatedAdapter()
    loop = Loop(adapter, layers, scale)
    with open_session(adapter) as session:
        run(loop, session, 6)
    return session.plan.arena


def test_more_structures_than_plans_are_recorded_ever_more_rarely(adapter, monkeypatch):
    monkeypatch.setattr(installing, "MOST_PLANS", 2)
    loops = [
        Loop(adapter, [64 * number + 1000 * layer for layer in range(1, 8 + number)])
        for number in range(7)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with open_session(adapter) as session:
            for number in range(400):
                with session.iteration():
                    loops[number % 7]()
            assert session.summary().recorded < 120
            assert len(session.summary().notes) <= 20


def test_structures_that_never_come_again_leave_nothing_behind(adapter, monkeypatch):
    """A session keeps only as many structures as plans, however long it lasts."""
    monkeypatch.setattr(installing, "MOST_PLANS", 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with open_session(adapter) as session:
            for number in range(40):
                layers = [64 * number + 1000 * layer for layer in range(1, 8 + number)]
                loop = Loop(adapter, layers)
                for _ in range(12):
                    with session.iteration():
                        loop()
            assert len(session._lifecycle._plans) <= 3


def test_a_save_that_fails_does_not_end_the_training(adapter, tmp_path, monkeypatch):
    def refuse(*_):
        raise FileError("the disk is full")

    monkeypatch.setattr("pgmo.packing.plan_file.write_plan", refuse)
    with open_session(adapter, save=tmp_path) as session:
        with pytest.warns(UserWarning, match="could not be saved: the disk is full"):
            run(Loop(adapter, LAYERS), session, 6)
        assert session.history[-1].hit_rate == 1


def test_a_directory_that_cannot_be_is_found_out_before_training(adapter, tmp_path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(FileError, match="name another"), open_session(adapter, save=place):
            pytest.fail("training must not begin")
    assert not adapter.installed


def test_sums_go_on_when_the_history_is_cut(adapter, monkeypatch):
    monkeypatch.setattr("pgmo.allocator.session.statistics_collector._HISTORY", 5)
    with open_session(adapter) as session:
        run(Loop(adapter, LAYERS), session, 12)
    assert len(session.history) == 5
    assert session.summary().iterations == 12
    assert session.summary().replayed == 8


def test_two_threads_cannot_open_a_session_at_once(adapter):
    barrier = threading.Barrier(2)
    outcomes = []

    def open_one():
        barrier.wait()
        try:
            with open_session(adapter) as session:
                outcomes.append("opened")
                barrier.wait(timeout=5)
                session.step()
        except SessionError:
            outcomes.append("refused")
            barrier.wait(timeout=5)

    threads = [threading.Thread(target=open_one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["opened", "refused"]


def test_uninstalling_that_fails_does_not_hide_the_programs_exception(adapter, monkeypatch):
    def refuse():
        raise AdapterError("something lies on top")

    with pytest.warns(UserWarning, match="something lies on top"):
        with pytest.raises(ValueError, match="mine"), open_session(adapter) as session:
            session.step()
            monkeypatch.setattr(adapter, "uninstall", refuse)
            raise ValueError("mine")
