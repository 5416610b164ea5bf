import pytest
import torch
from torch import nn
from torch.nn import functional

import pgmo
from pgmo.recompute.capture.divide import dividable, divide, helpful, needed
from pgmo.recompute.capture.joint_graph import capture
from pgmo.recompute.capture.memory_use.workspaces import OperatorMeasurement
from pgmo.recompute.planners.planning import plan_choice
from pgmo.recompute.planners.schedule import simulate
from pgmo.recompute.runtime.offload.host import HostArenas
from pgmo.recompute.runtime.rewrite import split
from tests.unit.recompute.traced import by_name, captured


class Two(nn.Module):
    """Two convolutions, of which only the second one has a gradient of its input."""

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
    forward, backward = split(step, simulate(step.graph, step.graph.candidates()), HostArenas())
    first, second = list(model.parameters())[:2], list(model.parameters())[2:]
    made = forward(*first, X, *second)  # in the order of their first use
    return [one for one in backward(*made[step.outputs :], torch.ones(())) if one is not None]


def test_convolutions_that_compute_one_gradient_are_not_divided(whole):
    (name,) = dividable(whole)
    (node,) = [one for one in whole.joint.graph.nodes if one.name == name]
    assert node.args[10] == [True, True, True]
    assert len(by_name(whole.graph, "convolution_backward")) == 2


def test_a_divided_graph_gives_the_same_bits_with_less_at_once(whole):
    divided = capture(divide(whole.joint, dividable(whole)), whole.outputs)
    assert len(by_name(divided.graph, "convolution_backward")) == 3
    assert divided.graph.forward == whole.graph.forward
    model = Two()
    for one, other in zip(gradients(divided, model), gradients(whole, model), strict=True):
        assert torch.equal(one, other)
    first, second = by_name(divided.graph, "convolution_backward")[:2]
    assert len(divided.graph.operations[first].writes) == 2  # gradients of the weights and the bias
    assert len(divided.graph.operations[second].writes) == 1
    assert second == first + 1


def test_the_graph_that_is_divided_stays_as_it_is(whole):
    before = str(whole.joint.graph)
    divide(whole.joint, dividable(whole))
    assert str(whole.joint.graph) == before


def test_divisions_that_the_limit_does_not_require_are_not_needed(whole):
    names = dividable(whole)
    divided = capture(divide(whole.joint, names), whole.outputs)
    schedule = simulate(divided.graph)
    (name,) = names
    (index,) = [i for i, nodes in enumerate(whole.nodes) if nodes and nodes[0].name == name]
    undivided = simulate(whole.graph)
    at_once = int(undivided.live[undivided.operations.tolist().index(index)])
    assert needed(divided, schedule, at_once + 100, {name: 100}) == frozenset()
    assert needed(divided, schedule, at_once + 99, {name: 100}) == names
    assert needed(divided, schedule, at_once, {}) == frozenset()


def test_divisions_that_save_no_memory_are_not_helpful(whole):
    names = dividable(whole)
    divided = capture(divide(whole.joint, names), whole.outputs)
    assert helpful(divided, {}) == frozenset()
    assert helpful(divided, dict.fromkeys(names, 1)) == names
    greedy = capture(
        divide(whole.joint, names),
        whole.outputs,
        lambda node: OperatorMeasurement(100 * ("convolution_backward" in node.name)),
    )
    assert helpful(greedy, dict.fromkeys(names, 100)) == frozenset()
    assert helpful(greedy, dict.fromkeys(names, 101)) == names


class Unread(nn.Module):
    """Two convolutions; only the second one reads its large input."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(2, 8, 1)
        self.second = nn.Conv2d(48, 2, 1)

    def forward(self, x):
        h = self.first(x).sigmoid()
        return self.second(torch.cat([h] * 6, 1)).square().mean()


def test_an_input_without_later_readers_dies_with_the_first_half(monkeypatch):
    monkeypatch.setattr("pgmo.recompute.capture.divide._COPYING", set())  # as on a GPU
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


def test_the_curve_does_not_hang_on_the_budget(monkeypatch):
    monkeypatch.setattr("pgmo.recompute.capture.divide._COPYING", set())
    _, least = pgmo.recompute(Unread(), X, "min", measure=False)
    for budget in ("100%", None):
        _, plan = pgmo.recompute(Unread(), X, budget, measure=False)
        assert plan.curve(2, 1.0).choices[0].peak <= least.peak < plan.peak


@pytest.mark.parametrize(("channels", "stands_in"), [(1, False), (2, False), (0, True)])
def test_no_number_stands_in_for_channels_last(monkeypatch, channels, stands_in):
    monkeypatch.setattr("pgmo.recompute.capture.divide._COPYING", set())
    model = nn.Sequential(nn.Conv2d(2, channels or 1, 3), nn.SiLU(), nn.Conv2d(channels or 1, 3, 1))
    x = X
    if channels:  # one channel is contiguous in both formats, but has another kernel
        model, x = (one.to(memory_format=torch.channels_last) for one in (model, X))
    step = captured(model, x)
    divided = divide(step.joint, dividable(step))
    (given,) = [
        node.args[1]
        for node in divided.graph.nodes
        if "convolution_backward" in node.name and node.args[10] == [True, False, False]
    ]
    assert (given.target is torch.ops.aten.expand.default) is stands_in


def test_nothing_stands_in_for_an_empty_input(monkeypatch):
    monkeypatch.setattr("pgmo.recompute.capture.divide._COPYING", set())
    step = captured(Two(), X[:0])
    divided = divide(step.joint, dividable(step))
    assert "new_empty" not in str(divided.graph)


class Penalty(nn.Module):
    """A model whose forward pass computes the gradients of a convolution."""

    def __init__(self):
        super().__init__()
        self.layers = Two().layers

    def forward(self, x):
        hidden = self.layers[:2](x)
        return sum(
            one.square().mean()
            for one in torch.func.grad(
                lambda *given: functional.conv2d(*given).square().sum(), argnums=(0, 1)
            )(hidden, self.layers[2].weight)
        )


def test_the_forward_pass_is_never_divided(monkeypatch):
    monkeypatch.setattr("pgmo.recompute.capture.divide._COPYING", set())
    step = captured(Penalty(), X)
    inside = by_name(step.graph, "convolution_backward")[0]
    assert inside < step.graph.forward
    assert step.nodes[inside][0].name not in dividable(step)
    divided = capture(divide(step.joint, dividable(step)), step.outputs)
    forward = [
        [one.name for one in graph.operations[: graph.forward]]
        for graph in (divided.graph, step.graph)
    ]
    assert forward[0] == forward[1]
