import pytest
import torch
from torch import nn

from pgmo.recompute.capture.memory_use import workspaces
from pgmo.recompute.capture.memory_use.costs import operator_name
from tests.unit.recompute.traced import captured


@pytest.fixture(autouse=True)
def unknown(monkeypatch):
    monkeypatch.setattr(workspaces, "_known", {})


def node(module, inputs, name):
    step = captured(module, inputs)
    return next(nodes[0] for nodes in step.nodes if nodes and operator_name(nodes[0]) == name)


def dropout():
    return node(
        nn.Sequential(nn.Linear(8, 8), nn.Dropout()), torch.ones(64, 8), "aten.native_dropout"
    )


def test_an_operator_is_measured_once():
    one = dropout()
    assert workspaces.measured(one).workspace == 0
    assert workspaces.measure([one, one], least=0) == 1
    assert workspaces.measure([one], least=0) == 0
    assert workspaces.measured(one).workspace > 0  # the mask as floating-point numbers


def test_small_operators_and_views_are_not_measured():
    one = dropout()
    assert workspaces.measure([one], least=1 << 20) == 0
    view = node(nn.Linear(4, 4, bias=False), torch.ones(2, 4), "aten.mm").args[1]
    assert operator_name(view) == "aten.t"
    assert workspaces.measure([view], least=0) == 0


def test_random_numbers_are_drawn_as_if_nothing_had_been_measured():
    one = dropout()
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    workspaces.measure([one], least=0)
    assert torch.equal(torch.rand(3), expected)
