"""Tests of planned steps as profiles."""

import pytest

from pgmo.packing.planner import plan
from pgmo.profiler.profile import Profile
from pgmo.recompute.planners.schedule import simulate
from pgmo.recompute.step_profile import step_profile
from tests.unit.recompute.graphs import chain, random_graph


@pytest.mark.parametrize("seed", range(12))
def test_its_max_load_is_the_peak_and_it_can_be_packed(seed):
    graph = random_graph(seed, 12, 12)
    choice = frozenset(list(graph.candidates())[::2])
    schedule = simulate(graph, choice)
    profile = step_profile(schedule)
    assert profile.max_load() == schedule.peak
    assert len(profile) == (schedule.size > 0).sum()
    assert plan(profile, effort="fast").arena >= schedule.peak


def test_reruns_have_the_phase_recompute(tmp_path):
    graph = chain(8)
    schedule = simulate(graph, {1, 2, 4})
    assert schedule.recomputed == {1, 2, 4}
    path = tmp_path / "step.pgmoprof"
    step_profile(schedule, model="Net", device="cuda:0").save(path)
    profile = Profile.load(path)
    again = profile.size[[profile.tags[tag].phase == "recompute" for tag in profile.tag]]
    blocks = schedule.again[schedule.start] & (schedule.size > 0)
    assert again.sum() == schedule.size[blocks].sum()
    assert {tag.phase for tag in profile.tags} == {"forward", "backward", "recompute"}
    assert all(tag.module.startswith("Net") for tag in profile.tags)
    assert profile.alignment == 512
    assert profile.meta.notes["recomputed"].startswith(f"{len(schedule.recomputed)} of ")


def test_a_step_that_recomputes_nothing_has_no_such_phase():
    profile = step_profile(simulate(random_graph(0, 12, 12)))
    assert "recompute" not in {tag.phase for tag in profile.tags}
