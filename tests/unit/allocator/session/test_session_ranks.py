"""Sessions of several ranks, one after the other, with one directory of plans."""

import sys

import pytest

from pgmo.allocator.ranks import index
from pgmo.allocator.session.statistics import Phase
from pgmo.packing.plan import Plan
from tests.unit.allocator.simulated import LAYERS, Loop, SimulatedAdapter, open_session, run

OTHER = [7000 * (at + 3) for at in range(len(LAYERS))]


@pytest.fixture
def rank(monkeypatch):
    def become(number, size):
        monkeypatch.setenv("RANK", str(number))
        monkeypatch.setenv("WORLD_SIZE", str(size))

    return become


def train(folder, layers=LAYERS, **options):
    """A session's, in a fresh process, that trains a while."""
    adapter = SimulatedAdapter()
    with open_session(adapter, model_name="job", **(options or {"save": folder})) as session:
        run(Loop(adapter, layers), session, 10)
        assert session.history[-1].phase is Phase.REPLAY
        assert session.history[-1].hit_rate == 1
    return session


def plans(folder):
    return sorted(path.name for path in folder.glob("*.pgmoplan"))


def test_the_second_rank_begins_with_the_plan_of_the_first(tmp_path, rank):
    rank(0, 4)
    assert train(tmp_path).summary().recorded > 0
    rank(2, 4)
    summary = train(tmp_path).summary()
    assert summary.recorded == 0
    assert "of rank 0 of 4, for rank 2 of 4: it has 100.0% of the requests" in summary.notes[0]
    assert len(plans(tmp_path)) == 1
    assert len(index.read(tmp_path / "job.ranks.json")) == 1


def test_the_plan_of_another_program_is_not_near(tmp_path, rank):
    rank(0, 4)
    train(tmp_path)
    rank(1, 4)
    summary = train(tmp_path, OTHER).summary()
    assert summary.recorded > 0
    assert "none of the plans in" in summary.notes[0]
    assert len(plans(tmp_path)) == 2
    openings = [Plan.load(tmp_path / name).opening for name in plans(tmp_path)]
    assert sum(one is None for one in openings) == 1  # the first plan's is not the second's
    for number, layers, recorded in ((0, LAYERS, 0), (1, OTHER, 2)):
        rank(number, 4)
        session = train(tmp_path, layers)
        assert session.summary().recorded == recorded  # of its own, the other one has no opening
        assert session.summary().notes[0].startswith("began with job-")


def test_a_plan_of_another_command_line_does_not_open_this_program(tmp_path, rank, monkeypatch):
    rank(0, 4)
    train(tmp_path)
    monkeypatch.setattr(sys, "argv", ["train.py", "--divided-otherwise"])
    summary = train(tmp_path, OTHER).summary()
    assert "none of the plans in" in summary.notes[0]
    assert summary.hit_rate == 1  # nothing that was born in its arena is in the way
    assert train(tmp_path, OTHER).summary().recorded == 0


def test_among_several_the_one_that_is_this_programs_is_taken(tmp_path, rank):
    for number, layers in ((0, OTHER), (3, LAYERS)):
        rank(number, 4)
        train(tmp_path, layers)
    rank(1, 8)  # nearer to the first
    summary = train(tmp_path).summary()
    assert "of rank 3 of 4, for rank 1 of 8" in summary.notes[0]
    assert len(plans(tmp_path)) == 2


def test_what_is_saved_after_the_process_group_has_ended_is_the_ranks_too(
    tmp_path, rank, monkeypatch
):
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


def test_one_process_may_name_a_directory(tmp_path, rank, monkeypatch):
    rank(0, 2)
    train(tmp_path)
    monkeypatch.delenv("WORLD_SIZE")
    summary = train(tmp_path, plan=tmp_path).summary()
    assert summary.recorded == 2  # of a world of another size, so an iteration has to follow it
    assert "of rank 0 of 2, for rank 0 of 1" in summary.notes[0]


def test_what_one_process_has_saved_serves_by_its_directory(tmp_path):
    train(tmp_path)
    assert plans(tmp_path) == ["job.pgmoplan"]
    summary = train(tmp_path, plan=tmp_path).summary()
    assert summary.recorded == 0
    assert "job.pgmoplan, of a single process" in summary.notes[0]


def test_an_empty_directory_is_no_error(tmp_path):
    summary = train(tmp_path, plan=tmp_path).summary()
    assert summary.recorded > 0
    assert summary.notes == (f"{tmp_path} has no plan for this yet",)
