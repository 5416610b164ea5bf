"""A saved plan serves the first iteration, except persistent blocks."""

import pytest

from pgmo.allocator.session.statistics import Phase
from pgmo.errors import AdapterError
from pgmo.packing.plan import Plan
from tests.unit.allocator.simulated import LAYERS, Loop, SimulatedAdapter, open_session, run

OTHER = [1000 * (at + 1) for at in range(9)]


@pytest.fixture
def saved(adapter, tmp_path):
    with open_session(adapter, save=tmp_path, model_name="loop") as session:
        run(Loop(adapter, LAYERS), session, 8)
    names = ["loop.pgmoprof", "loop-opening.pgmoprof", "loop.pgmoplan"]
    assert [path.name for path in session.saved] == names
    return tmp_path / "loop.pgmoplan"


@pytest.fixture
def card():
    """Return a framework that stands for another process."""
    return SimulatedAdapter()


def test_the_first_iteration_runs_from_the_plan_already(saved, card):
    loop = Loop(card, LAYERS)
    with open_session(card, plan=saved) as session:
        run(loop, session, 5)
    assert [one.phase for one in session.history] == [Phase.REPLAY] * 5
    first, *later = session.history
    assert first.requests == later[0].requests + len(LAYERS)
    assert first.misses["persistent"] == first.requests - first.hits == len(LAYERS)
    assert not any(card.served(address) for address in loop.state)
    assert all(one.hit_rate == 1 for one in later)
    assert session.summary().recorded == 0


def test_a_program_that_does_not_follow_the_opening_is_looked_at_before_it_is_served(saved, card):
    loop = Loop(card, OTHER)
    with open_session(card, plan=saved) as session:
        run(loop, session, 1)
        assert session.phase is Phase.RECORD
        with pytest.warns(UserWarning, match="does not match this program"):
            run(loop, session, 9)
    assert session.history[-1].hit_rate == 1
    assert session.plan.fingerprint != Plan.load(saved).fingerprint


def test_a_program_that_has_begun_already_is_served_from_its_second_iteration_on(saved, card):
    """State exists when the session begins, so the opening's persistent blocks aren't requested."""
    loop = Loop(card, LAYERS)
    loop()
    with open_session(card, plan=saved) as session:
        run(loop, session, 4)
    assert all(one.hit_rate > 0.9 for one in session.history[2:])
    assert session.history[-1].hit_rate == 1


def test_an_arena_in_which_blocks_live_is_kept_for_the_plans(saved, card):
    """The first iteration has another structure, and leaves a block in a slot."""
    loop = Loop(card, LAYERS)
    with open_session(card, plan=saved) as session:
        with session.iteration():
            kept = card.request(LAYERS[0])
            assert card.served(kept)
            for size in OTHER:
                card.free(card.request(size))
        assert session.phase is Phase.RECORD
        run(loop, session, 1)
        card.free(kept)
        run(loop, session, 5)
        assert session.history[-1].hit_rate == 1
        assert len(card.arenas[0]) == 1


def test_no_memory_for_the_opening(saved, card, monkeypatch):
    take = card.take_arena
    refusals = []

    def refuse(*args):
        if not refusals:
            refusals.append(args)
            raise AdapterError("no memory")
        return take(*args)

    monkeypatch.setattr(card, "take_arena", refuse)
    loop = Loop(card, LAYERS)
    with pytest.warns(UserWarning, match="cannot serve the first iteration: no memory"):
        with open_session(card, plan=saved) as session:
            assert session.phase is Phase.RECORD
            run(loop, session, 4)
    assert [one.hit_rate for one in session.history] == [0, 1, 1, 1]


def test_an_exception_in_the_first_iteration(saved, card):
    loop = Loop(card, LAYERS)
    with open_session(card, plan=saved) as session:
        with pytest.raises(RuntimeError, match="boom"), session.iteration():
            card.free(card.request(LAYERS[0]))
            raise RuntimeError("boom")
        run(loop, session, 4)
        assert session.history[-1].hit_rate == 1


def test_first_requests_of_its_own_that_die_at_once_do_not_matter(adapter, tmp_path, card):
    """A program may request blocks once, such as a first batch, and free them at once."""

    def train(on, session, times):
        loop = Loop(on, LAYERS)
        with session.iteration():
            on.free(on.request(123_456))
            loop()
        run(loop, session, times - 1)

    with open_session(adapter, save=tmp_path, model_name="loop") as session:
        train(adapter, session, 8)
    with open_session(card, plan=tmp_path / "loop.pgmoplan") as session:
        train(card, session, 4)
    first, *later = session.history
    assert first.phase is Phase.REPLAY
    assert first.hits >= first.requests - len(LAYERS) - 1
    assert all(one.phase is Phase.REPLAY and one.hit_rate == 1 for one in later)
