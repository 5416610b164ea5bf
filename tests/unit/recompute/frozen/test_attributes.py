"""What a model's attributes and the program's globals were is noticed when they are others now."""

import argparse
import enum
from dataclasses import dataclass

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import pgmo  # noqa: E402
from pgmo.recompute.runtime.twin import original  # noqa: E402
from tests.unit.recompute.frozen.recapture import X, captured_again, made  # noqa: E402

SCALE = 1.0
SCALES = {"one": 1.0}
OPTIONS = argparse.Namespace(scale=1.0)


class Mode(enum.Enum):
    PLAIN = 1
    OTHER = 2


@dataclass
class Config:
    scale: float = 1.0


class Net(nn.Module):
    """Its loss depends on all kinds of things that are no tensors."""

    common = 1.0

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(16, 16), nn.Linear(16, 16)
        self.kl_weight, self.unread, self.mode = 0.0, 0, Mode.PLAIN
        self.weights, self.names = [1.0, 2.0], {"scale": 1.0}
        self.config, self.function = Config(), torch.sigmoid
        self.eps = float("nan")

    @property
    def scale(self):
        return self.weights[0] * self.names["scale"] * self.config.scale

    def forward(self, x):
        y = self.last(self.function(self.first(x))) * (2.0 if self.mode is Mode.PLAIN else 1.0)
        loss = y.square().mean() * self.scale + self.kl_weight * y.abs().mean()
        loss = loss * getattr(self, "temperature", 1.0) * self.common * helped() * OPTIONS.scale
        return loss if self.eps != self.eps else 2 * loss


def helped():
    return SCALE * SCALES["one"]


def changed(name):
    """Functions that change one thing of a model's."""
    return {
        "kl_weight": lambda model: setattr(model, "kl_weight", 0.5),
        "kl_weight as bool": lambda model: setattr(model, "kl_weight", False),
        "mode": lambda model: setattr(model, "mode", Mode.OTHER),
        "weights": lambda model: model.weights.append(1.0),
        "names": lambda model: model.names.update(scale=2.0),
        "scale of Config": lambda model: setattr(model.config, "scale", 2.0),
        "config": lambda model: setattr(model, "config", Config()),
        "function": lambda model: setattr(model, "function", torch.tanh),
        "temperature": lambda model: setattr(model, "temperature", 2.0),
        "common": lambda model: setattr(model, "common", 2.0),
        "eps": lambda model: delattr(model, "eps"),
    }[name]


@pytest.mark.parametrize(
    "name",
    [
        *("kl_weight", "kl_weight as bool", "mode", "weights", "names", "scale of Config"),
        *("config", "function", "temperature", "common", "eps"),
    ],
)
def test_an_attribute_that_was_read_and_is_another_now(name):
    plain = Net()
    model = made(plain)
    model(X).backward()
    changed(name)(plain)
    word = name.split()[0]
    if name == "eps":  # as the model itself would not run
        with pytest.raises(
            pgmo.errors.GraphError, match=r"has no attribute 'eps'.*test_attributes"
        ):
            model(X)
        return
    captured_again(model, rf"{word}.* when the step was captured.*test_attributes")
    with torch.no_grad(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain, "eps", float("nan"), raising=False)
        model(X)  # as it is


def test_what_is_put_back_is_as_it_was():
    model = made(Net())
    model.kl_weight = 0.5
    captured_again(model, r"model\.kl_weight is 0\.5 and was 0\.0")
    model.kl_weight = 0.0
    model(X).backward()
    model.kl_weight = 0.5
    again = made(model)
    assert torch.equal(again(X), original(again)(X))


def test_what_is_not_read_may_change():
    model = made(Net())
    for step in range(3):
        model.unread = model.epoch = step
        model(X).backward()


def test_globals_and_what_they_hold(monkeypatch):
    model = made(Net())
    model(X).backward()
    monkeypatch.setattr(OPTIONS, "scale", 2.0)
    captured_again(model, r"Namespace\.scale is 2\.0 and was 1\.0.*test_attributes")
    monkeypatch.undo()
    model(X).backward()
    monkeypatch.setitem(globals(), "SCALE", 2.0)
    captured_again(model, r"the global SCALE is 2\.0.*return SCALE \\*")


def test_registries_may_grow(monkeypatch):
    model = made(Net())
    monkeypatch.setitem(SCALES, "another", 3.0)
    model(X).backward()
    monkeypatch.setitem(SCALES, "one", 2.0)
    captured_again(model, "the global SCALES is")


def test_types_are_left_as_they_were():
    before = nn.Module.__getattribute__, Config.__getattribute__
    made(Net())
    assert (nn.Module.__getattribute__, Config.__getattribute__) == before
    assert "__getattribute__" not in vars(nn.Module)
    assert "__getattribute__" not in vars(Config)
