import copy

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import pgmo  # noqa: E402
from tests.unit.recompute.steps import same, step  # noqa: E402


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


class Decorated(Marked):
    """A marked function, and a region of another module."""

    @pgmo.recompute.forget()
    def inner(self, x):
        return x.sigmoid().exp().exp()

    def forward(self, x):
        return super().forward(self.inner(x) * 0.01)


def test_a_marked_method_is_part_of_one_graph():
    model, x = Decorated(), torch.rand(64, 16, requires_grad=True)
    ours, plan = pgmo.recompute(copy.deepcopy(model), x, None, measure=False, whole=True)
    names = sorted(plan.graph.operations[index].name for index in plan.recomputed)
    assert names.count("aten.exp") == 4  # the last one of the method is read outside
    assert same(step(ours, x), step(model, x))


class Broken(nn.Module):
    """A submodule with a graph break inside of a region, which Dynamo leaves out."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(16, 16), Marked()

    def marked(self, x):
        with pgmo.recompute.forget():
            x = x.sigmoid()
            torch._dynamo.graph_break()
            return self.first(x.exp()).exp().tanh()

    def forward(self, x):
        return self.last(self.marked(x))


@pytest.mark.filterwarnings("ignore:the forward pass is no single graph")
def test_a_graph_break_inside_of_a_region_changes_no_bits():
    model, x = Broken(), torch.rand(64, 16)
    ours, plan = pgmo.recompute(copy.deepcopy(model), x, None, measure=False)
    assert same(step(ours, x), step(model, x))
    assert plan.recomputed


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_marked_region_in_a_compiled_model_changes_no_bits(backend):
    model, x = Marked(), torch.rand(64, 16)
    compiled = torch.compile(copy.deepcopy(model), backend=backend, fullgraph=True)
    assert same(step(compiled, x), step(model, x))
