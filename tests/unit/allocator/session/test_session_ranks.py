"""Sessions of several ranks, one after the other, with one directory of plans."""

import pytest

from pgmo.allocator.session.statistics import Phase
from tests.unit.allocator.simulated import LAYERS, Loop, SimulatedAdapter, open_session, run

OTHER = [7000 * (at + 3) for at in range(len(LAYERS))]


@pytest.fixture
def rank(monkeypatch):
    def become(number, size):
        monkeypatch.setenv("RANK", str(number))
        monkeypatch.setenv("WORLD_SIZE", str(size))

    return become


def train(layers=LAYERS, **options):
    """Train with a session in a fresh process; return the session's figures."""
    adapter = SimulatedAdapter()
    with open_session(adapter, model_name="job", **options) as session:
        run(Loop(adapter, layers), session, 10)
        assert session.history[-1].phase is Phase.REPLAY
        assert session.history[-1].hit_rate == 1
    return session


def plans(folder):
    return sorted(path.name for path in folder.glob("*.pgmoplan"))


def test_ranks_that_do_the_same_have_one_plan_and_each_begins_with_it(tmp_path, rank):
    for number in range(2):
        rank(number, 4)
        assert train(save=tmp_path).summary().recorded > 0
    (name,) = plans(tmp_path)
    for number in range(2):
        rank(number, 4)
        summary = train(plan=tmp_path).summary()
        assert summary.recorded == 0
        assert summary.notes == (f"began with {name}, the plan of rank {number} of 4",)


def test_a_rank_without_a_plan_takes_the_one_that_it_follows(tmp_path, rank):
    for number, layers in ((0, OTHER), (3, LAYERS)):
        rank(number, 4)
        train(layers, save=tmp_path)
    rank(1, 8)
    session = train(plan=tmp_path)
    summary = session.summary()
    assert 0 < summary.recorded <= 2  # until an iteration has followed the plan
    assert session.profile is not None
    assert "which has 100.0% of the last iteration's requests" in summary.notes[0]


def test_a_rank_whose_program_differs_records_its_own(tmp_path, rank):
    rank(0, 4)
    train(save=tmp_path)
    rank(1, 4)
    summary = train(OTHER, plan=tmp_path, save=tmp_path).summary()
    assert "fits: the best of 1 has 0.0% of the last iteration's requests" in summary.notes[0]
    for number, layers in ((0, LAYERS), (1, OTHER)):
        rank(number, 4)
        assert train(layers, plan=tmp_path).summary().recorded == 0


def test_a_rank_whose_own_program_has_changed_records_anew(tmp_path, rank):
    rank(0, 2)
    train(save=tmp_path)
    with pytest.warns(UserWarning, match="the plan given does not match this program"):
        session = train(OTHER, plan=tmp_path, save=tmp_path)
    assert session.summary().recorded > 0
    assert len(plans(tmp_path)) == 1  # the earlier plan was removed
    assert [path.exists() for path in session.saved] == [True] * len(session.saved)


def test_the_directory_of_plans_may_be_named_before_it_is_there(tmp_path, rank):
    folder = tmp_path / "plans"
    rank(1, 2)
    summary = train(plan=folder, save=folder).summary()
    assert summary.notes == (f"{folder} has no usable plan for this model",)
    assert train(plan=folder, save=folder).summary().recorded == 0


def test_a_rank_saves_its_plans_after_the_process_group_has_ended(tmp_path, rank, monkeypatch):
    rank(1, 2)
    adapter = SimulatedAdapter()
    with open_session(adapter, save=tmp_path, model_name="job") as session:
        loop = Loop(adapter, LAYERS)
        run(loop, session, 6)
        assert len(plans(tmp_path)) == 1
        monkeypatch.delenv("WORLD_SIZE")
        loop.layers = OTHER
        run(loop, session, 6)
    assert all(name.startswith("job-") for name in plans(tmp_path))


def test_one_process_may_begin_with_a_ranks_plan(tmp_path, rank, monkeypatch):
    rank(0, 2)
    train(save=tmp_path)
    monkeypatch.delenv("WORLD_SIZE")
    summary = train(plan=tmp_path).summary()
    assert summary.recorded == 2
    assert summary.notes[0].startswith("began with job-")
