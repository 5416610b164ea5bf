import copy
import logging

import pytest
import torch
from torch import nn

import pgmo
from pgmo.recompute.capture.memory_use.meter import meter
from tests.unit.recompute.steps import same, step

WIDTH = 32


class Sequences(nn.Module):
    """A loop over `nn.Sequential` blocks in which Python reads a value."""

    def __init__(self, depth=4):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
            for _ in range(depth)
        )
        self.read = []

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
            self.read.append(f"{x.detach().std().item():.2f}")
        return (x.square().mean(),)


def test_containers_of_pytorch_are_captured_where_the_loop_around_them_is_not():
    model, x = Sequences(), torch.randn(256, WIDTH)
    plain = copy.deepcopy(model)
    with pytest.warns(
        UserWarning, match=r"value of a tensor is read, at .*test_loops\.py:\d+: self"
    ):
        ours, plan = pgmo.recompute(model, x, budget="min")
    assert plan.peak < 0.9 * plan.default_peak
    for seed in range(2):
        assert same(step(ours, x, seed=seed), step(plain, x, seed=seed))
    ours.zero_grad(set_to_none=True)
    with meter(torch.device("cpu")) as measured:
        ours(x)[0].backward()
    assert measured.peak == pytest.approx(plan.peak, rel=0.01)


class Layer(nn.Module):
    """A layer with Python numbers of its own, as for stochastic depth."""

    def __init__(self, index):
        super().__init__()
        self.index, self.rate = index, 0.1 * index + 0.05
        self.widen, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        hidden = nn.functional.gelu(self.widen(x)) * self.rate + self.index
        return x + self.narrow(hidden)


class Layers(nn.Module):
    """A loop over layers in which Python reads a value."""

    def __init__(self, depth=8):
        super().__init__()
        self.layers = nn.ModuleList(map(Layer, range(depth)))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
            if x.abs().max().item() > 1e9:
                x = x.clamp(-1e9, 1e9)
        return (x.square().mean(),)


def test_layers_with_numbers_of_their_own_are_all_captured():
    model, x = Layers(), torch.randn(256, WIDTH)
    plain = copy.deepcopy(model)
    with pytest.warns(UserWarning, match="8 graphs are planned under one budget"):
        ours, plan = pgmo.recompute(model, x, budget="min")
    for seed in range(2):
        assert same(step(ours, x, seed=seed), step(plain, x, seed=seed))
    assert plan.measured_peak == pytest.approx(plan.peak, rel=0.01)
    assert plan.peak < 0.5 * plan.default_peak


class Logs(nn.Module):
    """A layer that logs a message once in the middle of its forward pass."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        x = self.first(x).sin()
        LOGGER.warning_once("slow")
        return (self.second(x).square().mean(),)


LOGGER = logging.getLogger(__name__)


def test_a_message_logged_once_breaks_no_graph(monkeypatch):
    logged = set()
    once = lambda _logger, message: logged.add(message)  # noqa: E731
    monkeypatch.setattr(logging.Logger, "warning_once", once, raising=False)
    model, x = Logs(), torch.randn(64, WIDTH)
    plain = copy.deepcopy(model)
    ours, plan = pgmo.recompute(model, x, budget="min", whole=True)
    assert plan.graphs == 1
    assert logged == {"slow"}
    assert same(step(ours, x), step(plain, x))
