"""Programs whose requests repeat after several steps, which are joined into one iteration."""

import threading
from dataclasses import replace

import pytest

from pgmo.allocator import heuristics
from pgmo.allocator.phase import phase_lists, phase_on
from pgmo.allocator.session.statistics import Phase
from tests.unit.allocator.simulated import LAYERS, Loop, open_session

SHAPES = [LAYERS, [1 << 15, 3 << 12] * 7, [5 << 10] * 25]
LONGEST = 60


class Turns:
    """Several models that train in turn. Gradients of each live until its next turn."""

    def __init__(self, adapter, models):
        self.models = [Loop(adapter, shape) for shape in SHAPES[:models]]
        self.at = 0

    def __call__(self):
        self.models[self.at % len(self.models)]()
        self.at += 1

    def finish(self):
        for model in self.models:
            model.finish()


class Truncated:
    """Engine whose recordings of joined steps are truncated."""

    recording_truncated = True

    def __init__(self, engine):
        self._engine = engine

    def __getattr__(self, name):
        return getattr(self._engine, name)


def train(session, program, steps):
    for _ in range(steps):
        program()
        session.step()


@pytest.mark.parametrize("models", [2, 3])
def test_slots_serve_what_lives_through_the_turn_of_another_model(adapter, models):
    program = Turns(adapter, models)
    with open_session(adapter) as session:
        train(session, program, LONGEST)
        latest = session.history_end
        assert session.phase is Phase.REPLAY
        assert latest.hit_rate == 1
        assert len(session._known.lifecycle._plans) == 1
        assert f"now of {models} steps each" in str(session.summary())
        program.finish()


def test_two_models_are_planned_after_seven_periods(adapter):
    program = Turns(adapter, 2)
    with open_session(adapter) as session:
        train(session, program, 14)
        assert session.phase is Phase.REPLAY
        train(session, program, 2)
        assert session.history_end.hit_rate == 1
        program.finish()


def test_one_model_is_not_joined(adapter):
    loop = Loop(adapter, LAYERS)
    with open_session(adapter) as session:
        train(session, loop, 10)
        assert len(session.history) == 10
        assert "steps each" not in str(session.summary())
        loop.finish()


def test_a_turn_that_is_cut_short_shifts_the_period_once(adapter):
    program = Turns(adapter, 2)
    with open_session(adapter) as session:
        train(session, program, 20)
        with pytest.raises(ValueError, match="cut"), session.iteration():
            program.at += 1
            raise ValueError("cut")
        train(session, program, LONGEST)
        assert session.phase is Phase.REPLAY
        assert session.history_end.hit_rate == 1
        program.finish()


def test_a_model_that_trains_on_alone_is_served(adapter):
    program = Turns(adapter, 2)
    with open_session(adapter) as session:
        train(session, program, 20)
        program.models[1].drop()
        train(session, program.models[0], LONGEST)
        assert session.history_end.hit_rate == 1
        program.finish()


def test_periods_of_changed_programs_are_not_joined_without_limit(adapter):
    """A new period is a multiple of the last one, at most the longest recording."""
    program = Turns(adapter, 3)
    with open_session(adapter) as session:
        train(session, program, LONGEST)
        for _ in range(4):
            program.models.append(program.models.pop(0))
            program.models[0].scale += 1
            train(session, program, LONGEST)
        assert session.summary().steps <= 24
        program.finish()


@pytest.mark.parametrize("option", ["save", "record_only"])
def test_saved_profiles_are_those_of_single_steps(adapter, tmp_path, option):
    options = {"save": tmp_path} if option == "save" else {"record_only": True}
    program = Turns(adapter, 2)
    with open_session(adapter, **options) as session:
        train(session, program, LONGEST)
        assert len(session.history) == LONGEST
        program.finish()


@pytest.mark.parametrize("models", [2, 3])
def test_growth_is_that_of_iterations_of_one_length(adapter, models):
    program, kept, leak = Turns(adapter, models), [], 1 << 20
    with open_session(adapter) as session:
        for _ in range(LONGEST):
            kept.append(adapter.request(leak))
            train(session, program, 1)
        assert session.summary().steps == models
        assert session.summary().growth.rate == models * leak
        program.finish()
        for address in kept:
            adapter.free(address)


def test_threads_that_train_in_turn_are_all_served(adapter):
    program = Turns(adapter, 2)
    turns = [threading.Semaphore(1), threading.Semaphore(0)]

    def work(number):
        for _ in range(LONGEST // 2):
            turns[number].acquire()
            train(session, program, 1)
            turns[1 - number].release()

    with open_session(adapter) as session:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert len(session.history) >= LONGEST
        assert not any("at the same time" in note for note in session.summary().notes)
        program.finish()


@pytest.mark.parametrize("steps", [20, 21])
def test_a_thread_that_takes_over_within_joined_steps_is_served(adapter, steps):
    program = Turns(adapter, 2)
    with open_session(adapter) as session:
        train(session, program, steps)
        assert session.summary().steps == 2
        before = len(session.history)
        thread = threading.Thread(target=train, args=(session, program, LONGEST))
        thread.start()
        thread.join()
        assert len(session.history) >= before + LONGEST
        assert not any("at the same time" in note for note in session.summary().notes)
        program.finish()


def test_a_phase_ends_an_iteration_only_if_none_ended_inside(adapter):
    program, rounds = Turns(adapter, 2), 20
    with open_session(adapter) as session:
        for _ in range(rounds):
            with phase_on(adapter, phase_lists("rollout", None, None)):
                program()
            with phase_on(adapter, phase_lists("training", None, None)):
                train(session, program, 1)
        assert len(session.history) == 2 * rounds
        program.finish()


def test_steps_are_separated_if_they_are_too_long_to_record_together(adapter):
    program = Turns(adapter, 2)
    with open_session(adapter) as session:
        lifecycle = session._known.lifecycle
        while session.summary().steps == 1:
            train(session, program, 1)
        engine, lifecycle._engine = lifecycle._engine, Truncated(lifecycle._engine)
        train(session, program, 2)
        lifecycle._engine = engine
        train(session, program, LONGEST)
        assert session.summary().steps == 1
        assert session.summary().replayed
        program.finish()


def test_a_recording_is_not_extended_where_no_steps_may_be_joined(adapter, monkeypatch):
    usual = heuristics.current
    monkeypatch.setattr(heuristics, "current", replace(usual, longest_period=1))
    program = Turns(adapter, 2)
    with open_session(adapter) as session:
        train(session, program, usual.usual_recording)
        assert session.phase is not Phase.RECORD
        program.finish()


def test_joined_steps_and_later_plans_are_not_compared_with_earlier_iterations(adapter):
    program = Turns(adapter, 2)
    with open_session(adapter) as session:
        lifecycle = session._known.lifecycle
        lifecycle._rule.pause = 0, 0
        while not lifecycle.joins_steps:
            train(session, program, 1)
        assert lifecycle._rule.pause is None
        lifecycle._rule.pause = 0, 0
        while session.phase is Phase.RECORD:
            train(session, program, 1)
        assert session.phase is Phase.REPLAY
        assert lifecycle._rule.pause is None
        program.finish()
