from dataclasses import dataclass

import torch
from torch import nn

import pgmo
from tests.unit.recompute.steps import same, step


@dataclass
class Layer:
    keys: torch.Tensor
    names: list


class Cache:
    def __init__(self, layers):
        self.layers, self.length = layers, len(layers)


class Returns(nn.Linear):
    """A model that returns its loss and an object, whose objects have tensors."""

    def forward(self, x):
        keys = super().forward(x)
        return {"loss": keys.tanh().sum(), "cache": Cache([Layer(keys, ["keys"])])}


def test_an_object_that_is_returned_is_another_one_at_each_call():
    x, plain = torch.randn(4, 8), Returns(8, 8)
    model, _ = pgmo.recompute(plain, x, measure=False)
    first, second = model(x)["cache"], model(2 * x)["cache"]
    assert type(first) is Cache
    assert first.length == 1
    assert first.layers[0].names == ["keys"]
    assert first.layers is not second.layers
    assert torch.equal(first.layers[0].keys, plain(x)["cache"].layers[0].keys)
    assert torch.equal(second.layers[0].keys, plain(2 * x)["cache"].layers[0].keys)


def test_tensors_in_returned_objects_can_be_differentiated():
    x, plain = torch.randn(4, 8), Returns(8, 8)
    model, _ = pgmo.recompute(plain, x, measure=False)
    (plain(x)["cache"].layers[0].keys.sum()).backward()
    expected = plain.weight.grad.clone()
    plain.zero_grad()
    (model(x)["cache"].layers[0].keys.sum()).backward()
    assert torch.equal(plain.weight.grad, expected)


@dataclass
class Batch:
    x: torch.Tensor
    name: str = ""


class Opens(nn.Linear):
    def forward(self, batch, array):
        return (super().forward(batch.x) * torch.from_numpy(array)).square().sum()


def test_objects_and_arrays_may_be_given():
    plain = Opens(8, 8)
    batches = [(Batch(torch.randn(4, 8)), torch.rand(8).numpy()) for _ in range(3)]
    model, _ = pgmo.recompute(plain, batches[0], measure=False)
    for given in batches:
        assert same(step(model, *given), step(plain, *given))
    assert len(model.forward.steps) == 1
    given = Batch(torch.randn(6, 8)), batches[0][1]
    assert same(step(model, *given), step(plain, *given))
    assert len(model.forward.steps) == 2
