"""Tests of operations that run again at any step: the same bits, and the planned peak."""

import random

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import pgmo  # noqa: E402
from pgmo.recompute.planners.evaluator import Choice  # noqa: E402
from pgmo.recompute.planners.planning import plan_choice  # noqa: E402
from pgmo.recompute.planners.schedule import simulate  # noqa: E402
from tests.unit.recompute.runtime.networks import Skips  # noqa: E402
from tests.unit.recompute.steps import same, step  # noqa: E402


class Deep(nn.Module):
    """Layers of one width, which run several times each for the least peak."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(6))

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x.square().mean()


def anywhere(seed, share):
    """Return a planner that runs operations again at random steps of both passes."""

    def plan(graph, _budget):
        dice = random.Random(seed)
        reruns = tuple(
            (moment, index)
            for moment in range(len(graph.operations))
            for index in range(min(moment, graph.forward))
            if not graph.operations[index].pinned and dice.random() < share
        )
        schedule = simulate(graph, reruns=reruns)
        assert any(moment < graph.forward for moment, _ in reruns)
        chosen = schedule.recomputed
        return Choice(chosen, schedule.peak, schedule.overhead, "dice", reruns=reruns)

    return plan


@pytest.mark.parametrize("seed", range(6))
def test_whatever_runs_again_the_bits_are_the_same(seed):
    torch.manual_seed(0)
    model, other = Skips(), Skips()
    other.load_state_dict(model.state_dict())
    inputs = (torch.randn(2, 3, 12, 12),)
    planner = anywhere(seed, (0.03, 0.2, 1)[seed % 3])
    again, plan = pgmo.recompute(model, inputs, budget="min", planner=planner, measure=False)
    assert plan.schedule.again.any()
    for _ in range(2):
        assert same(step(again, *inputs), step(other, *inputs))


def test_a_value_is_computed_a_third_time_and_the_peak_is_the_planned_one():
    model = Deep()
    inputs = (torch.randn(2048, 32),)
    expected = step(model, *inputs)
    found = []

    def planner(graph, _budget):
        single = plan_choice(graph, "min", evaluations=5000)
        found.append(single)
        return plan_choice(graph, int(0.4 * simulate(graph).peak), evaluations=20_000)

    again, plan = pgmo.recompute(model, inputs, budget=0.4, planner=planner)
    times = [index for _, index in plan.schedule.reruns]
    assert len(times) > len(set(times))
    assert plan.overhead > 1
    assert same(step(again, *inputs), expected)
    assert plan.measured_peak == pytest.approx(plan.peak, rel=0.02)
    assert plan.peak <= 0.4 * plan.default_peak < found[0].peak


def test_an_output_without_gradient_leaves_the_plan_as_it_is():
    class Two(Deep):
        def forward(self, x):
            return super().forward(x), self.layers[0](x).exp().sum(1)

    model = Two()
    inputs = (torch.randn(512, 32),)
    expected = step(model, *inputs)
    again, plan = pgmo.recompute(
        model, inputs, budget="min", planner=anywhere(1, 0.1), measure=False
    )
    for _ in range(2):
        assert same(step(again, *inputs), expected)
    assert plan.schedule.again.any()
