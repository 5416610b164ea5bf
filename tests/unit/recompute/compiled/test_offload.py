"""Tests of models of several parts whose values wait on the host: bits, budget, transfers."""

import pytest

from pgmo.recompute.planners.schedule import is_at_home
from tests.unit.recompute.compiled import models
from tests.unit.recompute.compiled.models import batch, step
from tests.unit.recompute.compiled.test_several_graphs import made, peak
from tests.unit.recompute.reruns import read_reruns
from tests.unit.recompute.steps import dice, same

pytestmark = pytest.mark.filterwarnings("ignore:the forward pass is not a single graph")


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        *((kind, 0) for kind in (models.Blocks, models.Shared, models.Hidden)),
        pytest.param(models.Blocks, 1, marks=pytest.mark.slow),
        pytest.param(models.Convolutions, 0, marks=pytest.mark.slow),
        pytest.param(models.Decoder, 0, marks=pytest.mark.slow),
    ],
)
def test_random_offloads_have_the_same_bits_and_the_predicted_peak(kind, seed):
    plain, model, plan = made(kind, budget="1 GiB", planner=dice(seed, 0.2, needed=read_reruns))
    for number in range(2):
        assert same(step(model, batch(number), number), step(plain, batch(number), number))
    assert plan.host_bytes > 0
    assert peak(model, batch(0)) == pytest.approx(plan.peak, rel=0.01)


def test_a_budget_is_met_at_less_time():
    without = made(models.Blocks, budget=0.6)[2]
    plain, model, plan = made(models.Blocks, budget=0.6, offload=1e12)
    assert plan.offloaded
    assert plan.overhead < without.overhead
    assert all(is_at_home(plan.graph, *place) for place in plan.schedule.reruns)
    for number in range(3):
        assert same(step(model, batch(number), number), step(plain, batch(number), number))
    assert peak(model, batch(0)) == pytest.approx(plan.peak, rel=0.01)
    assert plan.peak <= plan.budget
    said = plan.explain()
    assert "not a single graph" in said
    assert f"The results of {len(plan.offloaded)} operations are offloaded" in said
    assert plan.curve(points=2, time_limit=0.2).as_rows()[0]["host_bytes"] > 0


@pytest.mark.slow
def test_shapes_and_modes_that_come_later():
    plain, model, _ = made(models.Blocks, offload=1e12)
    assert same(step(model, batch(5, 24), 5), step(plain, batch(5, 24), 5))
    plain.eval(), model.eval()
    assert same(step(model, batch(6), 6), step(plain, batch(6), 6))
