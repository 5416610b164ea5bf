import copy

import pytest
import torch
from torch import nn

import pgmo
from pgmo.recompute.capture.memory_use.meter import meter
from tests.unit.recompute.steps import same, step
from tests.unit.recompute.traced import by_name, captured


class Branches(nn.Module):
    """A model that reads one tensor in several branches, so that its gradient is a sum."""

    def __init__(self, count, transposed=False):
        super().__init__()
        self.first = nn.Linear(32, 32)
        self.branches = nn.ModuleList(nn.Linear(32, 32) for _ in range(count))
        self.transposed = transposed

    def forward(self, x):
        x = self.first(x).sin()
        parts = [branch(x).cos() for branch in self.branches]
        if self.transposed:
            parts.append(x.t().contiguous().exp().t())
        return torch.stack(parts).square().mean()


@pytest.mark.parametrize("transposed", [False, True])
def test_a_sum_of_gradients_overwrites_a_summand_and_has_the_same_bits(transposed):
    plain, x = Branches(4, transposed), torch.randn(32, 32)
    model, plan = pgmo.recompute(copy.deepcopy(plain), x, budget=1.0)
    assert by_name(plan.graph, "add_")
    for _ in range(2):
        assert same(step(model, x), step(plain, x))
    assert plan.measured_peak == pytest.approx(plan.peak, rel=0.02)


def test_values_that_are_read_later_are_not_overwritten():
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient + gradient.exp() - gradient

    class Uses(nn.Linear):
        def forward(self, x):
            y = super().forward(x)
            return Doubled.apply(y.sin()).square().mean()

    plain, x = Uses(32, 32), torch.randn(8, 32)
    model, _ = pgmo.recompute(copy.deepcopy(plain), x, budget=1.0, measure=False)
    assert same(step(model, x), step(plain, x))


def test_a_forward_pass_is_left_as_it_is():
    found = captured(Branches(3), torch.randn(8, 32))
    assert not by_name(found.graph, "add_")  # in the traced graph


class Slices(nn.Module):
    """A model whose layers write their results into slices of one tensor."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(5))

    def forward(self, x):
        made = x.new_zeros(len(self.layers) + 1, *x.shape)
        made[0] = x
        for index, layer in enumerate(self.layers):
            made[index + 1] = layer(made[index].clone()).tanh()
        return made.square().mean()


@pytest.mark.parametrize("budget", [0.7, "min"])
def test_plan_and_measure_agree_where_slices_are_written(budget):
    plain, x = Slices(), torch.randn(256, 32)
    model, plan = pgmo.recompute(copy.deepcopy(plain), x, budget=budget)
    predicted = plan.peak
    for _ in range(2):
        assert same(step(model, x), step(plain, x))
    model.zero_grad(set_to_none=True)
    with meter(torch.device("cpu")) as measured:
        model(x).backward()
    assert predicted == plan.peak == pytest.approx(plan.measured_peak, rel=0.01)
    assert measured.peak == pytest.approx(plan.peak, rel=0.01)
