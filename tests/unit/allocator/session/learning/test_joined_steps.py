"""Programs whose requests repeat after several steps, which are joined into one iteration."""

import pytest

from pgmo.allocator.session.statistics import Phase
from tests.unit.allocator.simulated import LAYERS, Loop, open_session

SHAPES = [LAYERS, [1 << 15, 3 << 12] * 7, [5 << 10] * 25]
LONGEST = 60


class Turns:
    """Several models that train in turn; gradients of each live until its next turn."""

    def __init__(self, adapter, models):
        self.models = [Loop(adapter, shape) for shape in SHAPES[:models]]
        self.at = 0

    def __call__(self):
        self.models[self.at % len(self.models)]()
        self.at += 1

    def finish(self):
        for model in self.models:
            model.finish()


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


def test_when_only_one_model_trains_on_it_is_served(adapter):
    program = Turns(adapter, 2)
    with open_session(adapter) as session:
        train(session, program, 20)
        program.models[1].drop()
        train(session, program.models[0], LONGEST)
        assert session.history_end.hit_rate == 1
        program.finish()


def test_periods_of_changed_programs_are_not_joined_without_limit(adapter):
    """Each new period multiplies the last one only up to the longest recording."""
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
