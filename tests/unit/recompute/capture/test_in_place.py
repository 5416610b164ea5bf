import copy

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import pgmo  # noqa: E402
from tests.unit.recompute.traced import by_name, captured  # noqa: E402


class Branches(nn.Module):
    """Reads one tensor in several places, so that its gradient is a sum."""

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
    plain = Branches(4, transposed)
    other = copy.deepcopy(plain)
    x = torch.randn(32, 32)
    model, plan = pgmo.recompute(other, x, budget=1.0)
    assert by_name(plan.graph, "add_")
    for _ in range(2):
        for each in (plain, model):
            each.zero_grad()
            each(x).backward()
        for mine, its in zip(other.parameters(), plain.parameters(), strict=True):
            assert torch.equal(mine.grad, its.grad)
    assert plan.measured_peak == pytest.approx(plan.peak, rel=0.02)


def test_what_is_read_later_is_not_overwritten():
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

    plain = Uses(32, 32)
    other = copy.deepcopy(plain)
    x = torch.randn(8, 32)
    model, _ = pgmo.recompute(other, x, budget=1.0, check=False)
    for each in (plain, model):
        each(x).backward()
    assert torch.equal(plain.weight.grad, other.weight.grad)


def test_a_forward_pass_is_left_as_it_is():
    found = captured(Branches(3), torch.randn(8, 32))
    assert not by_name(found.graph, "add_")  # a graph as it was traced
