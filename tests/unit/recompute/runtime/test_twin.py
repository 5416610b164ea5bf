import copy
import pickle

import torch
from torch import nn
from torch.nn import functional

from pgmo.recompute.runtime.twin import original, twin


class Noisy(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.layer, self.rate = nn.Linear(width, width), 0.5

    def forward(self, x):
        return functional.dropout(self.layer(x), self.rate, self.training)


def one(*_arguments):
    return 1


def again(model):
    return twin(model, one, again)


def test_twin_and_model_share_attributes():
    model = Noisy()
    other = twin(model, one, again)
    assert isinstance(other, Noisy)
    assert type(model) is Noisy
    assert (other(None), original(other)) == (1, model)
    model.eval()
    assert not other.training
    other.train()
    assert model.training
    other.rate = 0.25
    other.added = nn.Linear(8, 8)
    assert (model.rate, model.added) == (0.25, other.added)
    assert repr(model) == repr(other)


def test_forward_may_be_wrapped_and_is_not_shared():
    model = Noisy()
    other = twin(model, one, again)
    inner = other.forward
    other.forward = lambda x: inner(x) + 1
    assert other(None) == 2
    assert model.forward.__func__ is Noisy.forward
    del other.forward
    assert other(None) == 1


def test_copies_are_twins_of_copies():
    model = Noisy()
    other = twin(model, one, again)
    for made in (copy.deepcopy(other), copy.copy(other), pickle.loads(pickle.dumps(other))):
        assert made(None) == 1
        assert original(made) is not model
        assert type(original(made)) is Noisy
        made.eval()
        assert model.training
    assert copy.copy(other).layer is model.layer


def test_a_slice_of_a_twin_is_a_plain_module():
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 4))
    part = twin(model, one, again)[:1]
    assert type(part) is nn.Sequential
    assert part(torch.ones(2, 8)).shape == (2, 8)
