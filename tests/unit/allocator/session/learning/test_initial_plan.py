"""Sessions that begin with the plan of a profile from another session."""

import pytest

import pgmo
from pgmo.allocator.session.statistics import Phase
from pgmo.errors import FileError, OptionError, PlanError
from pgmo.profiler.profile import Profile
from tests.unit.allocator.simulated import LAYERS, Loop, SimulatedAdapter, open_session, run


def times(factor):
    """Return the layers' sizes at a larger batch."""
    return [size * factor for size in LAYERS]


def recorded(batch):
    """Return the profile of a session at a batch, in which nothing was served."""
    own = SimulatedAdapter()
    with open_session(own, record_only=True) as session:
        run(Loop(own, times(batch)), session, 6)
    return session


def test_a_plan_of_another_process_is_served_from_the_first_request_on(adapter):
    before = recorded(32)
    profile, opening = before.profile, before.opening
    with open_session(adapter, plan=pgmo.plan(profile, opening=opening)) as session:
        run(Loop(adapter, times(32)), session, 4)
    assert [one.phase for one in session.history] == [Phase.REPLAY] * 4
    assert session.history[0].misses["persistent"] > 0  # optimizer state is allocated
    assert all(one.hits == one.requests - one.misses["persistent"] for one in session.history)
    assert all(one.hit_rate == 1 for one in session.history[1:])
    assert session.summary().recorded == 0
    assert session.plan.arena == pgmo.plan(profile).arena


def test_without_the_opening_one_iteration_is_looked_at_before(adapter):
    profile = recorded(8).profile
    with open_session(adapter, plan=pgmo.plan(profile)) as session:
        run(Loop(adapter, times(8)), session, 5)
    assert session.history[0].phase is Phase.RECORD
    assert session.history[-1].hit_rate == 1


def test_a_session_saves_its_opening_as_a_profile(adapter, tmp_path):
    with open_session(adapter, save=tmp_path, model_name="loop") as session:
        run(Loop(adapter, LAYERS), session, 6)
    saved = Profile.load(tmp_path / "loop-opening.pgmoprof")
    assert session.opening.fingerprint == saved.fingerprint


def test_no_opening_was_asked_for(adapter):
    with open_session(adapter) as session:
        run(Loop(adapter, LAYERS), session, 6)
    assert session.opening is None


def test_a_line_cannot_be_replayed(adapter):
    line = Profile.from_columns(size=[64], start=[0], end=[1], ticks=1, circular=False)
    with pytest.raises(PlanError, match="cannot be replayed"):
        open_session(adapter, plan=pgmo.plan(line)).__enter__()
    assert not adapter.installed


def test_a_file_that_is_not_there(adapter):
    with pytest.raises(FileError, match=r"nowhere\.pgmoplan"):
        open_session(adapter, plan="nowhere.pgmoplan").__enter__()


@pytest.mark.parametrize(
    ("option", "instead"),
    [
        ("profile", r"plan=pgmo\.plan\(profile\)"),
        ("opening", r"plan=pgmo\.plan\(profile, opening=opening\)"),
        ("effort", r"plan=pgmo\.plan\(session\.profile"),
        ("memory", r"with pgmo\.managed\(\)"),
    ],
)
def test_options_that_are_gone_say_what_to_use_instead(option, instead):
    with pytest.raises(OptionError, match=f"no option '{option}'; it was removed: .*{instead}"):
        pgmo.optimize(**{option: "something"})
