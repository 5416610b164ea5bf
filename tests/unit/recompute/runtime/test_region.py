import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import pgmo  # noqa: E402


class Marked(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            with pgmo.recompute.forget():
                x = layer(x.sigmoid().exp()).tanh()
        return x.sum()


def test_the_insides_of_marked_regions_are_forgotten_in_a_captured_model():
    _, plan = pgmo.recompute(Marked(), torch.ones(64, 16), None, measure=False)
    names = sorted(plan.graph.operations[index].name for index in plan.recomputed)
    assert names.count("aten.exp") == names.count("aten.sigmoid") == 3
    # The last tanh of each region is read by what follows it, and kept.
    assert names.count("aten.tanh") == 0
    assert plan.peak < plan.default_peak
    assert "region" in plan.explain()


def test_without_marks_nothing_is_forgotten():
    _, plan = pgmo.recompute(nn.Linear(4, 4), torch.ones(2, 4), None, measure=False)
    assert not plan.recomputed
    assert "Nothing is recomputed" in plan.explain()


def test_a_function_can_be_marked():
    @pgmo.recompute.forget()
    def double(x):
        return x.exp().exp()

    x = torch.ones(3, requires_grad=True)
    double(x).sum().backward()
    expected = torch.ones(3, requires_grad=True)
    expected.exp().exp().sum().backward()
    assert torch.equal(x.grad, expected.grad)
