import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import pgmo  # noqa: E402
from pgmo.recompute.capture import capture  # noqa: E402
from pgmo.recompute.divide import dividable, divide, needed  # noqa: E402
from pgmo.recompute.planning import plan_choice  # noqa: E402
from pgmo.recompute.rewrite import split  # noqa: E402
from pgmo.recompute.schedule import simulate  # noqa: E402
from tests.unit.recompute.traced import by_name, captured  # noqa: E402


class Two(nn.Module):
    """The first convolution has no gradient of its input, the second has all three."""

    def __init__(self, width=4):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(2, width, 3), nn.Sigmoid(), nn.Conv2d(width, 3, 3))

    def forward(self, x):
        return self.layers(x).square().mean()


X = torch.linspace(0, 1, 2 * 2 * 12 * 12).reshape(2, 2, 12, 12)


@pytest.fixture
def whole():
    return captured(Two(), X)


def gradients(step, model):
    forward, backward = split(step, simulate(step.graph, step.graph.candidates()))
    made = forward(*model.parameters(), X)
    return [one for one in backward(*made[step.outputs :], torch.ones(())) if one is not None]


def test_what_computes_one_gradient_stays_whole(whole):
    (name,) = dividable(whole.joint)
    (node,) = [one for one in whole.joint.graph.nodes if one.name == name]
    assert node.args[10] == [True, True, True]
    assert len(by_name(whole.graph, "convolution_backward")) == 2


def test_a_divided_graph_gives_the_same_bits_with_less_at_once(whole):
    divided = capture(divide(whole.joint, dividable(whole.joint)), whole.outputs)
    assert len(by_name(divided.graph, "convolution_backward")) == 3
    assert divided.graph.forward == whole.graph.forward
    model = Two()
    for one, other in zip(gradients(divided, model), gradients(whole, model), strict=True):
        assert torch.equal(one, other)
    first, second = by_name(divided.graph, "convolution_backward")[:2]
    assert len(divided.graph.operations[first].writes) == 2  # of the weights and the bias
    assert len(divided.graph.operations[second].writes) == 1
    assert second == first + 1


def test_the_graph_that_is_divided_stays_as_it_is(whole):
    before = str(whole.joint.graph)
    divide(whole.joint, dividable(whole.joint))
    assert str(whole.joint.graph) == before


def test_what_fits_in_one_piece_is_not_needed_in_two(whole):
    names = dividable(whole.joint)
    divided = capture(divide(whole.joint, names), whole.outputs)
    schedule = simulate(divided.graph)
    (name,) = names
    (index,) = [i for i, nodes in enumerate(whole.nodes) if nodes and nodes[0].name == name]
    undivided = simulate(whole.graph)
    at_once = int(undivided.live[undivided.operations.tolist().index(index)])
    assert needed(divided, schedule, at_once + 100, {name: 100}) == frozenset()
    assert needed(divided, schedule, at_once + 99, {name: 100}) == names
    assert needed(divided, schedule, at_once, {}) == frozenset()


class Unread(nn.Module):
    """The input of the second convolution is large, and only that reads it."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(2, 8, 1)
        self.second = nn.Conv2d(48, 2, 1)

    def forward(self, x):
        h = self.first(x).sigmoid()
        return self.second(torch.cat([h] * 6, 1)).square().mean()


def test_an_input_that_nobody_reads_later_dies_with_the_first_half(monkeypatch):
    monkeypatch.setattr("pgmo.recompute.divide._COPYING", set())  # as on a GPU
    model = Unread()
    made, plan = pgmo.recompute(model, X, "min", measure=False)
    _, plain = pgmo.recompute(model, X, None, measure=False)
    cat = by_name(plan.graph, "cat")[0]
    first, second = by_name(plan.graph, "convolution_backward")[:2]
    (value,) = plan.graph.operations[cat].writes
    assert value in plan.graph.operations[first].reads
    assert value not in plan.graph.operations[second].reads
    assert "1 convolution computes its gradients" in plan.explain()
    assert "one after the other" not in plain.explain()
    assert plan.peak < 0.9 * plan_choice(plain.graph, "min").peak
    expected = torch.autograd.grad(model(X), list(model.parameters()))
    found = torch.autograd.grad(made(X), list(made.parameters()))
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
