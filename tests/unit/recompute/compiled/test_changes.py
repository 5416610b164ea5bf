"""Tests that a forward pass is captured again if a value that it reads has changed."""

import argparse
import enum
from collections import deque
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

import pgmo
from tests.unit.recompute.steps import same, step

X = torch.linspace(-1, 1, 8 * 16).reshape(8, 16)


class Mode(enum.Enum):
    PLAIN = 1
    OTHER = 2


@dataclass
class Config:
    scale: float = 1.0
    inner: list = field(default_factory=lambda: [argparse.Namespace(scale=1.0)])


class Defaults:
    scale = 1.0


class Scaling(torch.autograd.Function):
    @staticmethod
    def forward(_context, x):
        return x.clone()

    @staticmethod
    def backward(_context, gradient):
        return gradient * Defaults.scale


def adjustable():
    """Return a function that reads a closure variable, and one that changes the variable."""
    factor = 1.0

    def change(value):
        nonlocal factor
        factor = value

    return (lambda: factor), change


SCALE, SCALES, REGISTRY = 1.0, {"one": 1.0}, {}
ARRAY, QUEUE = np.ones(2), deque([1.0])
of_closure, change_closure = adjustable()

READS = {
    "attribute": lambda model: model.scale,
    "enum": lambda model: 2.0 if model.mode is Mode.PLAIN else 1.0,
    "list": lambda model: model.weights[-1],
    "dictionary": lambda model: model.names["scale"],
    "missing attribute": lambda model: getattr(model, "temperature", 1.0),
    "object in a list in an object": lambda model: model.config.inner[0].scale,
    "attribute of a class": lambda model: model.common,
    "own method": lambda model: model.scaled(),
    "global": lambda _: SCALE,
    "entry of a global": lambda _: SCALES["one"],
    "missing entry": lambda _: REGISTRY.get("scale", 1.0),
    "array": lambda _: float(ARRAY[0]),
    "queue": lambda _: QUEUE[-1],
    "closure": lambda _: of_closure(),
}


class Reader(nn.Module):
    """A model whose loss has a factor, which it reads as one of `READS` does."""

    common, mode = 1.0, Mode.PLAIN

    def __init__(self, way=""):
        super().__init__()
        self.linear = nn.Linear(16, 16)
        self.layers = nn.Sequential(nn.Linear(16, 16), nn.Tanh())
        self.scale, self.weights, self.names = 1.0, [1.0], {"scale": 1.0}
        self.config, self.unread, self.read = Config(), 0, READS.get(way, lambda _: 1.0)
        self.way = way

    def scaled(self):
        return 1.0

    def forward(self, x):
        y = functional.silu(self.layers(self.linear(x).sigmoid()))
        if self.way == "autograd":
            y = Scaling.apply(y)
        return y.sigmoid().square().mean() * self.read(self)


CHANGES = {
    "attribute": lambda patch, model: setattr(model, "scale", 2.0),
    "enum": lambda patch, model: setattr(model, "mode", Mode.OTHER),
    "list": lambda patch, model: model.weights.append(2.0),
    "dictionary": lambda patch, model: model.names.update(scale=2.0),
    "missing attribute": lambda patch, model: setattr(model, "temperature", 2.0),
    "object in a list in an object": lambda patch, model: setattr(
        model.config.inner[0], "scale", 2.0
    ),
    "attribute of a class": lambda patch, model: patch.setattr(Reader, "common", 2.0),
    "own method": lambda patch, model: patch.setattr(Reader, "scaled", lambda self: 2.0),
    "global": lambda patch, model: patch.setitem(globals(), "SCALE", 2.0),
    "entry of a global": lambda patch, model: patch.setitem(SCALES, "one", 2.0),
    "missing entry": lambda patch, model: patch.setitem(REGISTRY, "scale", 2.0),
    "autograd": lambda patch, model: patch.setattr(Defaults, "scale", 2.0),
    "array": lambda patch, model: ARRAY.fill(2.0),
    "queue": lambda patch, model: QUEUE.append(2.0),
    "closure": lambda patch, model: change_closure(2.0),
    "function of a module": lambda patch, model: patch.setattr(functional, "silu", torch.tanh),
    "forward of a class": lambda patch, model: patch.setattr(
        Reader, "forward", lambda self, x: self.linear(x).sum()
    ),
    "forward of a submodule's class": lambda patch, model: patch.setattr(
        nn.Linear, "forward", lambda self, x: functional.linear(x, 2 * self.weight)
    ),
    "forward of a submodule": lambda patch, model: setattr(
        model.layers[1], "forward", torch.sigmoid
    ),
    "submodule": lambda patch, model: model.layers.__setitem__(1, nn.Sigmoid()),
    "default type": lambda patch, model: torch.set_default_dtype(torch.float64),
    "determinism": lambda patch, model: torch.use_deterministic_algorithms(True),
    "frozen parameter": lambda patch, model: model.linear.requires_grad_(False),
}


@pytest.fixture(autouse=True)
def settings_are_put_back():
    yield
    torch.set_default_dtype(torch.float32)
    torch.use_deterministic_algorithms(False)
    change_closure(1.0)
    ARRAY.fill(1.0)
    QUEUE.append(1.0)


@pytest.mark.parametrize("way", CHANGES)
def test_changed_values_are_captured_again(monkeypatch, way):
    plain = Reader(way)
    model, _ = pgmo.recompute(plain, X, 1.0, measure=False)
    assert same(step(model, X), step(plain, X))
    before = step(plain, X)
    CHANGES[way](monkeypatch, plain)
    for _ in range(2):
        assert same(step(model, X), step(plain, X))
    assert not same(before, step(plain, X)) or way in ("default type", "determinism")


def test_changes_of_unread_values_cause_no_capture():
    plain = Reader("attribute")
    model, _ = pgmo.recompute(plain, X, 1.0, measure=False)
    step(model, X)
    graphs = model.forward._graphs
    for number in range(3):
        plain.unread = plain.epoch = plain.config.unread = number
        plain.names[f"another {number}"] = number
        assert same(step(model, X), step(plain, X))
    assert model.forward._graphs == graphs


@pytest.mark.parametrize("kind", ["register_forward_hook", "register_forward_pre_hook"])
@pytest.mark.parametrize("path", ["layers.1", ""])
def test_forward_hooks_that_come_and_go_run(kind, path):
    plain, seen = Reader(), []
    model, _ = pgmo.recompute(plain, X, 1.0, measure=False)
    step(model, X)

    def double(_module, given, *result):
        seen.append(None)
        return 2 * (result or given)[0]

    handle = getattr(model.get_submodule(path), kind)(double)
    for _ in range(2):
        assert same(step(model, X), step(plain, X))
    assert len(seen) >= 4
    handle.remove()
    assert same(step(model, X), step(plain, X))


def test_hooks_that_compute_weights_are_captured():
    plain = Reader()
    with pytest.warns(FutureWarning):
        nn.utils.weight_norm(plain.linear)
    model, _ = pgmo.recompute(plain, X, 1.0, measure=False)
    for _ in range(2):
        assert same(step(model, X), step(plain, X))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(8))

    def forward(self, q):
        return functional.scaled_dot_product_attention(q * self.scale, q, q).sum()


def test_each_kernel_of_attention_is_captured_by_itself():
    q, plain = torch.linspace(-1, 1, 2 * 2 * 8 * 8).reshape(2, 2, 8, 8), Attention()
    model, plan = pgmo.recompute(plain, q, 1.0, measure=False)
    assert any("flash" in one.name for one in plan.graph.operations)
    for _ in range(2):
        with sdpa_kernel(SDPBackend.MATH):
            assert same(step(model, q), step(plain, q))
        assert same(step(model, q), step(plain, q))
    assert len(model.forward.steps) == 2
