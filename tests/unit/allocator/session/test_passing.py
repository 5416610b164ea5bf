"""Iterations that pass without being inspected must have the same results as inspected ones."""

import random
import threading
import warnings
from functools import partial

import pytest

from pgmo.allocator.session.lifecycle import Lifecycle
from pgmo.allocator.session.statistics import Phase
from pgmo.errors import SessionError
from tests.unit.allocator.simulated import LAYERS, Loop, SimulatedAdapter, open_session


@pytest.fixture
def looked_at(monkeypatch):
    """Yield the list of phases of iterations that sessions inspect."""
    phases = []

    def watch(session):
        collector = session._known.lifecycle.collector
        count = collector.count

        def counting(phase, plan):
            phases.append(phase)
            return count(phase, plan)

        monkeypatch.setattr(collector, "count", counting)
        return phases

    return watch


def steps(loop, session, times):
    for _ in range(times):
        loop()
        session.step()


def test_planned_iterations_pass_uninspected_from_the_second_replay_on(adapter, looked_at):
    loop = Loop(adapter, LAYERS)
    with open_session(adapter) as session:
        phases = looked_at(session)
        steps(loop, session, 50)
        assert phases == [Phase.RECORD] * 4 + [Phase.REPLAY]
        assert len(session.history) == session.summary().iterations == 50
        loop.finish()


def test_lengths_within_a_plan_pass_too(adapter, looked_at):
    loop = Loop(adapter, LAYERS, scale=8)
    with open_session(adapter) as session:
        for scale in (8, 6, 7, 5, 8, 4):
            loop.scale = scale
            steps(loop, session, 1)
        steps(loop, session, 10)
        phases = looked_at(session)
        for scale in range(40):
            loop.scale = 1 + (7 * scale) % 8
            steps(loop, session, 1)
        assert phases == []
        assert len({one.bytes_requested for one in session.history[-40:]}) == 8
        assert all(one.hit_rate == 1 for one in session.history[-40:])
        loop.finish()


@pytest.mark.parametrize("after", [10, 300])
@pytest.mark.parametrize("change", ["larger", "more", "kept", "another structure"])
def test_a_change_is_noticed_at_once_after_any_number_of_iterations(
    adapter, looked_at, after, change
):
    loop, kept = Loop(adapter, LAYERS), []
    with open_session(adapter) as session:
        steps(loop, session, after)
        phases = looked_at(session)
        if change == "larger":
            loop.scale = 3
        elif change == "another structure":
            loop.layers = [3 * size for size in LAYERS[:-2]]
        loop(
            {
                "more": lambda: kept.extend(adapter.request(1234) for _ in range(30)),
                "kept": lambda: kept.append(adapter.request(1 << 20)),
            }.get(change)
        )
        session.step()
        assert phases == [Phase.REPLAY]
        assert session.history[-1].hit_rate < 1
        loop.finish()
        for block in kept:
            adapter.free(block)


def known(session):
    """Return the state on which later decisions depend, after passed iterations were counted."""
    lifecycle = session._known.lifecycle
    lifecycle._catch_up()
    divergence = lifecycle._divergence
    followed = [planned.followed for planned in lifecycle._plans.all]
    return divergence._divergences, divergence._last, followed


def random_program(seed, adapter, session):
    """Draw lengths and structures that repeat, return, grow, vary, or occur once."""
    all_known = []

    def keep(blocks):
        blocks.append(adapter.request(777))

    chance = random.Random(seed)
    loop = Loop(adapter, LAYERS, scale=16)
    long = chance.random() < 0.3
    for _ in range(30):
        way = chance.choice(["same", "same", "same", "varies", "grows", "other", "once", "cut"])
        top = loop.scale
        for turn in range(chance.randint(1, 300 if long else 12)):
            if way == "varies":
                loop.scale = max(1, top - chance.randint(0, 4))
            elif way == "grows":
                loop.scale = min(40, top + turn // 4)
            elif way == "other":
                loop.layers = LAYERS[: 4 + turn % 3]
            blocks = []
            extra = partial(keep, blocks) if way == "once" else None
            if way == "cut" and turn == 0:
                with pytest.raises(ValueError, match="cut"), session.iteration():
                    loop.drop()
                    raise ValueError("cut")
            loop(extra)
            session.step()
            for block in blocks:
                adapter.free(block)
            if chance.random() < 0.05:
                _ = session.history_end, session.counted()
        loop.layers = list(LAYERS)
        if session.phase is Phase.REPLAY:
            all_known.append(known(session))
    results = session.history, session.summary(), session.plan.arena, all_known
    loop.finish()
    return results


@pytest.mark.parametrize("seed", range(12))
def test_sessions_that_look_at_each_iteration_have_equal_results(seed, monkeypatch):
    results = []
    for looking in (False, True):
        if looking:
            monkeypatch.setattr(Lifecycle, "_let_pass", lambda *_: None)
        adapter = SimulatedAdapter()
        with warnings.catch_warnings(), open_session(adapter) as session:
            warnings.simplefilter("ignore")
            results.append((*random_program(seed, adapter, session), session.statistics))
    assert results[0] == results[1]


def test_a_step_of_another_thread_does_not_pass_for_the_sessions(adapter):
    loop = Loop(adapter, LAYERS)
    with open_session(adapter) as session:
        steps(loop, session, 20)
        loop()
        thread = threading.Thread(target=session.step)  # during an iteration of the loop
        thread.start()
        thread.join()
        assert len(session.history) == 20
        session.step()
        assert len(session.history) == 21
        loop.finish()


def test_misuse_is_reported_where_iterations_pass(adapter):
    loop = Loop(adapter, LAYERS)
    with open_session(adapter) as session:
        steps(loop, session, 20)
        with session.pause(), pytest.raises(SessionError, match="pause"):
            session.step()
        steps(loop, session, 2)
        with session.iteration():
            with pytest.raises(SessionError, match="inside"):
                session.step()
            loop()
        assert len(session.history) == 23
        loop.finish()
    with pytest.raises(SessionError, match="closed"):
        session.step()
