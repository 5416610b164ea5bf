import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import pgmo
from pgmo.profiler.tagging import origin
from pgmo.recompute.planners.evaluator import Choice
from tests.unit.profiler.networks import logged

X = torch.linspace(-1, 1, 64 * 8).reshape(64, 8)


def network():
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(8, 8), nn.Sigmoid(), nn.Dropout(0.5)) for _ in range(4)]
    return nn.Sequential(*layers)


def drop_all(graph, _budget):
    return Choice(frozenset(graph.candidates()), 0, 0.0, "all")


def tags_of_a_step(model):
    with logged() as log:
        model(X).sum().backward()
    return [tag for tag in log.tags() if tag is not None]


@pytest.mark.parametrize("compiled", [False, True])
def test_recorders_get_the_module_and_phase_of_reruns(compiled):
    model = network()
    if compiled:
        made = torch.compile(
            model, backend=pgmo.recompute.backend(planner=drop_all, measure=False), dynamic=False
        )
    else:
        made, _ = pgmo.recompute(model, X, planner=drop_all, measure=False)
    made(X).sum().backward()  # the first step is measured
    tags = tags_of_a_step(made)
    again = [tag for tag in tags if tag.phase == "recompute"]
    assert {tag.op for tag in again} >= {"aten.addmm", "aten.sigmoid", "aten.mul"}
    assert {"aten.native_dropout"}.isdisjoint(tag.op for tag in again)
    assert all(tag.module.startswith("Sequential") for tag in again)
    if not compiled:
        assert {tag.module for tag in again} >= {"Sequential.1.0", "Sequential.1.1"}
        forward = {tag.module for tag in tags if tag.phase == "forward"}
        assert {f"Sequential.{layer}.{part}" for layer in range(4) for part in range(3)} <= forward
        backward = {tag.module for tag in tags if tag.phase == "backward"}
        assert "Sequential.3.0" in backward


def test_a_recorded_step_has_the_bits_of_one_that_is_not():
    made, _ = pgmo.recompute(network(), X, planner=drop_all, measure=False)
    made(X).sum().backward()
    found = []
    for recorded in (False, True):
        torch.manual_seed(1)
        made.zero_grad()
        if recorded:
            tags_of_a_step(made)
        else:
            made(X).sum().backward()
        found.append([one.grad.clone() for one in made.parameters()])
    assert all(map(torch.equal, *found))


class NoSigmoid(TorchDispatchMode):
    def __torch_dispatch__(self, operator, types, arguments=(), keywords=None):
        if operator is torch.ops.aten.sigmoid.default:
            raise KeyError("no sigmoid")
        return operator(*arguments, **(keywords or {}))


def test_an_error_in_a_recorded_step_is_the_same_error():
    made, _ = pgmo.recompute(network(), X, planner=drop_all, measure=False)
    made(X).sum().backward()
    with pytest.raises(KeyError) as raised, logged(), NoSigmoid():
        made(X)
    assert raised.value.args == ("no sigmoid",)
    assert origin.declared() is None
    assert not origin.listening()
    assert any(tag.phase == "recompute" for tag in tags_of_a_step(made))
