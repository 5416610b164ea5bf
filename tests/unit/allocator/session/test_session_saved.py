"""Plans of several structures in one file: saved, loaded, and used from the first iteration on."""

import pytest

from pgmo.allocator.session.statistics import Phase
from pgmo.packing.plan import Plan
from tests.unit.allocator.simulated import LAYERS, Loop, SimulatedAdapter, open_session, run

EVALUATION = [3000 * (at + 2) for at in range(14)]


def evaluate(on):
    """Run an iteration of another structure, which frees all its blocks."""
    for address in [on.request(size) for size in EVALUATION]:
        on.free(address)


def train_and_evaluate(on, session, loop, times):
    for _ in range(times):
        run(loop, session, 2)
        loop.drop()  # gradients would occupy slots
        with session.iteration():
            evaluate(on)


@pytest.fixture
def saved(adapter, tmp_path):
    loop = Loop(adapter, LAYERS)
    with open_session(adapter, save=tmp_path, model_name="both") as session:
        run(loop, session, 6)
        with pytest.warns(UserWarning, match="recording again"):
            train_and_evaluate(adapter, session, loop, 7)
        assert session.history[-1].hit_rate == 1
        assert session.summary().plans == 2
    return tmp_path / "both.pgmoplan"


def test_structures_learned_late_are_saved(saved, adapter):
    names = {"both.pgmoprof", "both-2.pgmoprof", "both-opening.pgmoprof", "both.pgmoplan"}
    assert {path.name for path in saved.parent.iterdir()} == names
    plan = Plan.load(saved)
    assert [one.size.tolist() for one in plan.others] == [EVALUATION]
    assert len(plan) == 3 * len(LAYERS) + 1  # the main plan is the largest
    assert len(plan.opening) == 4 * len(LAYERS) + 1


def test_all_structures_are_served_in_another_process(saved):
    fresh = SimulatedAdapter()
    loop = Loop(fresh, LAYERS)
    with open_session(fresh, plan=saved) as session:
        train_and_evaluate(fresh, session, loop, 4)
        assert session.summary().plans == 2
    first, *later = session.history
    assert {one.phase for one in session.history} == {Phase.REPLAY}
    assert first.hits == first.requests - len(LAYERS)  # optimizer state has no slots
    assert all(one.hit_rate == 1 for one in later)
    assert [one.plan for one in session.history[1:6]] == [0, 1, 0, 0, 1]


def test_a_program_that_begins_with_the_other_structure_is_not_misled(saved):
    fresh = SimulatedAdapter()
    loop = Loop(fresh, LAYERS)
    with open_session(fresh, plan=saved) as session:
        with session.iteration():
            evaluate(fresh)
        train_and_evaluate(fresh, session, loop, 4)
    assert all(one.hit_rate == 1 for one in session.history[-6:])


def test_a_loaded_plan_that_grows_is_saved_with_the_others(saved, tmp_path):
    fresh = SimulatedAdapter()
    loop = Loop(fresh, LAYERS, scale=2)
    with open_session(fresh, plan=saved, save=tmp_path / "again", model_name="both") as session:
        train_and_evaluate(fresh, session, loop, 4)
        assert session.history[-1].hit_rate == 1
    plan = Plan.load(tmp_path / "again" / "both.pgmoplan")
    assert plan.size.max() == 2 * max(LAYERS)
    assert EVALUATION in [one.size.tolist() for one in plan.others]
