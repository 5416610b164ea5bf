"""Tests that the predicted peak without recomputation is the measured one of the plain model."""

import copy
import re

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import pgmo
from pgmo.recompute.capture.memory_use.meter import meter
from pgmo.units import format_bytes
from tests.unit.recompute.steps import same, step


class Layers(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layers = nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), layer()) for _ in range(4)))

    def forward(self, x):
        return self.layers(x).square().mean()


class Gated(nn.Module):
    """A product, both of whose derivatives exist before one is read."""

    def forward(self, x):
        return x * torch.sigmoid(1.7 * x)


class Swish(torch.autograd.Function):
    """An activation whose backward pass computes the sigmoid of the forward pass again."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * (torch.sigmoid(x) * (1 + x * (1 - torch.sigmoid(x))))


class Custom(nn.Module):
    def forward(self, x):
        return Swish.apply(x)


@pytest.mark.parametrize("layer", [nn.GELU, Gated, Custom, lambda: nn.Dropout(0.25)])
def test_the_default_peak_is_what_the_model_takes_by_itself(layer):
    model, x = Layers(layer), torch.ones(256, 64)
    _, plan = pgmo.recompute(model, x, budget="min")
    with meter(torch.device("cpu")) as measured:
        model(x).backward()
    assert plan.default_peak == pytest.approx(measured.peak, rel=0.01 if layer is Custom else 2e-3)
    assert plan.peak < plan.default_peak


class Checkpointed(nn.Module):
    """A model of checkpointed layers with dropouts."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.25), nn.GELU(), nn.Linear(64, 64))
            for _ in range(6)
        )

    def forward(self, x):
        for layer in self.layers:
            x = x + checkpoint(layer, x, use_reentrant=False)
        return x.square().mean()


def test_the_models_own_checkpoints_lower_the_default_peak():
    model, x = Checkpointed(), torch.ones(128, 64)
    made, plan = pgmo.recompute(copy.deepcopy(model), x, budget="min")
    with meter(torch.device("cpu")) as measured:
        model(x).backward()
    states = len(model.layers) * torch.get_rng_state().nbytes  # one for each checkpoint
    assert plan.default_peak == pytest.approx(measured.peak - states, rel=0.01)
    assert same(step(made, x), step(model, x))
    words = f"the original model's peak is {format_bytes(plan.default_peak)}."
    with pytest.raises(pgmo.BudgetError, match=re.escape(words)):
        pgmo.recompute(model, x, 0.1)


def test_a_share_refers_to_the_peak_of_the_plain_model():
    model, x = Layers(lambda: nn.Dropout(0.25)), torch.ones(256, 64)
    _, plan = pgmo.recompute(model, x, budget=0.8)
    assert plan.budget == pytest.approx(0.8 * plan.default_peak, abs=1)
