"""Tests that code that asks whether it is being compiled gets the plain model's answer."""

import copy

import pytest
import torch
from torch import nn

import pgmo
from tests.unit.recompute.steps import same, step

QUESTIONS = {
    "torch.compiler.is_compiling": lambda: torch.compiler.is_compiling(),
    "torch.compiler.is_dynamo_compiling": lambda: torch.compiler.is_dynamo_compiling(),
    "torch._dynamo.is_compiling": lambda: torch._dynamo.is_compiling(),
    "torch._dynamo.external_utils.is_compiling": (
        lambda: torch._dynamo.external_utils.is_compiling()
    ),
    "torch.compiler.is_exporting": lambda: torch.compiler.is_exporting(),
    "torch.cuda.is_current_stream_capturing": (
        lambda: torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()
    ),
    "torch.jit.is_tracing": lambda: torch.jit.is_tracing(),
    "torch.jit.is_scripting": lambda: torch.jit.is_scripting(),
    "torch.onnx.is_in_onnx_export": lambda: torch.onnx.is_in_onnx_export(),
}


class Asking(nn.Module):
    """A model that adds in another order if it sees that it is compiled."""

    def __init__(self, asks):
        super().__init__()
        self.asks, self.layer = asks, nn.Linear(16, 16)

    def forward(self, x):
        parts = (3 * self.layer(x)).exp().unbind(-1)
        total = torch.zeros_like(parts[0])
        for part in reversed(parts) if self.asks() else parts:
            total = total + part
        return total.square().sum()


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.randn(8, 16)


def test_the_order_of_additions_changes_the_bits(x):
    one, other = Asking(lambda: True), Asking(lambda: False)
    other.load_state_dict(one.state_dict())
    assert not same(step(one, x), step(other, x))


@pytest.mark.parametrize("name", QUESTIONS)
def test_code_does_not_learn_that_it_is_captured(name, x):
    plain = Asking(QUESTIONS[name])
    ours, _ = pgmo.recompute(copy.deepcopy(plain), x, "min", measure=False, whole=True)
    assert same(step(ours, x), step(plain, x))


def test_code_of_others_learns_that_it_is_compiled(x):
    plain = Asking(torch.compiler.is_compiling)
    pgmo.recompute(copy.deepcopy(plain), x, "min", measure=False)
    compiled = torch.compile(copy.deepcopy(plain), backend="eager")
    other = Asking(lambda: True)
    other.load_state_dict(plain.state_dict())
    assert same(step(compiled, x), step(other, x))
