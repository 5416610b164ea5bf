"""All ways by which Python code reads what may change."""

import functools
import os
from collections import deque

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

import pgmo  # noqa: E402
from tests.unit.recompute.frozen.recapture import X, captured_again, made  # noqa: E402


def decorated(function):
    @functools.wraps(function)
    def run():
        return function()

    return run


@decorated
def behind_a_decorator():
    return OTHER_SCALE.scale


@functools.lru_cache
def remembered():
    return OTHER_SCALE.scale


class Meter:
    """Keeps to itself what it has."""

    def __init__(self):
        self._scale = 1.0
        self.calls = 0

    @property
    def scale(self):
        return self._scale

    def get(self):
        return self._scale

    def count(self):
        self.calls += 1
        return self.calls


class Scaling(torch.autograd.Function):
    @staticmethod
    def forward(_context, x):
        return x.clone()

    @staticmethod
    def backward(_context, gradient):
        return gradient * OTHER_SCALE.scale


class OtherScale:
    scale = 1.0


METER, OTHER_SCALE, REGISTRY, ARRAY = Meter(), OtherScale, {}, np.ones(2)
QUEUE = deque([1.0])
function = torch.sigmoid


class Reader(nn.Module):
    """Reads by one of many ways what is no attribute of its own."""

    def __init__(self, way):
        super().__init__()
        self.way, self.linear = way, nn.Linear(16, 16)

    def scaled(self):
        return 1.0

    def forward(self, x):
        y = self.linear(x)
        factor = {
            "property": lambda: METER.scale,
            "method": lambda: METER.get(),
            "counter": lambda: METER.count(),
            "decorated": behind_a_decorator,
            "remembered": remembered,
            "missing entry": lambda: REGISTRY.get("scale", 1.0),
            "array": lambda: float(ARRAY[0]),
            "queue": lambda: QUEUE[0],
            "dictionary of attributes": lambda: vars(METER)["_scale"],
            "own method": self.scaled,
        }.get(self.way, lambda: 1.0)()
        if self.way == "autograd":
            y = Scaling.apply(y)
        if self.way == "function of a module":
            y = functional.silu(y)
        return function(y).mean() * factor


def _change(way, monkeypatch):
    match way:
        case "property" | "method" | "dictionary of attributes":
            monkeypatch.setattr(METER, "_scale", 2.0)
        case "decorated" | "autograd":
            monkeypatch.setattr(OtherScale, "scale", 2.0)
        case "remembered":
            monkeypatch.setattr(OtherScale, "scale", 2.0)
            remembered.cache_clear()
        case "missing entry":
            monkeypatch.setitem(REGISTRY, "scale", 2.0)
        case "array":
            ARRAY[0] = 2.0
        case "queue":
            QUEUE[0] = 2.0
        case "own method":
            monkeypatch.setattr(Reader, "scaled", lambda self: 2.0)
        case "function of a module":
            monkeypatch.setattr(functional, "silu", torch.tanh)
        case "function":
            monkeypatch.setitem(globals(), "function", torch.tanh)
        case "forward of a class":
            monkeypatch.setattr(Reader, "forward", lambda self, x: self.linear(x).sum())
        case "forward of a submodule's class":
            monkeypatch.setattr(nn.Linear, "forward", lambda self, x: x)


@pytest.mark.parametrize(
    "way",
    [
        *("property", "method", "decorated", "remembered", "missing entry", "array", "queue"),
        *("dictionary of attributes", "own method", "autograd", "function of a module"),
        *("function", "forward of a class", "forward of a submodule's class"),
    ],
)
def test_other_ways_to_what_changes(monkeypatch, way):
    remembered.cache_clear()
    ARRAY[0] = QUEUE[0] = 1.0
    model = made(Reader(way))
    model(X).backward()
    model(X).backward()
    _change(way, monkeypatch)
    captured_again(model, "when the step was captured")


def test_a_method_of_a_global_object_that_counts():
    with pytest.raises(pgmo.errors.GraphError, match=r"changes Meter\.calls each time"):
        made(Reader("counter"))


def test_the_environment_may_change(monkeypatch):
    class Asks(Reader):
        def forward(self, x):
            return super().forward(x) * float(os.environ.get("PGMO_NO_SUCH", "1"))

    model = made(Asks(""))
    monkeypatch.setenv("PGMO_ANOTHER", "1")  # of others
    model(X).backward()
