"""Tests of recomputing models in other models, in files, in compiled models and under modes."""

import copy
import io
import pickle
from functools import partial

import pytest
import torch
from functorch.compile import aot_function, make_boxed_func
from torch import nn
from torch.func import functional_call
from torch.utils._python_dispatch import TorchDispatchMode

import pgmo
from tests.unit.recompute.steps import same, step

X = torch.linspace(-1, 1, 8 * 16).reshape(8, 16)


def layers():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, 16))


def nest():
    return nn.Sequential(nn.Linear(16, 16), layers(), nn.Tanh())


def recomputing(model, **options):
    return pgmo.recompute(copy.deepcopy(model), measure=False, **options)[0]


def in_file(model):
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one)), in_file]
)
def test_copies_capture_anew(again):
    plain = layers()
    ours, _ = pgmo.recompute(copy.deepcopy(plain), X, measure=False)
    other = again(ours)
    assert same(step(other, X), step(plain, X))
    assert same(step(ours, X), step(plain, X))
    assert other.forward is not ours.forward
    assert list(other.state_dict()) == list(plain.state_dict())


@pytest.mark.parametrize("outer", [False, True])
def test_a_part_of_a_model_recomputes(outer):
    plain = nest()
    ours = copy.deepcopy(plain)
    ours[1] = recomputing(ours[1])
    if outer:
        ours, _ = pgmo.recompute(ours, X, measure=False, whole=True)
    for seed in range(2):
        assert same(step(ours, X, seed=seed), step(plain, X, seed=seed))


@pytest.mark.parametrize("whole", [False, True])
def test_a_twin_in_a_compiled_model_runs_unchanged(whole):
    plain = nest()
    ours = copy.deepcopy(plain)
    ours[1] = recomputing(ours[1])
    ours = recomputing(plain) if whole else ours
    compiled = torch.compile(ours, backend="eager", fullgraph=True)
    assert same(step(compiled, X), step(plain, X))


class Counting(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, operator, _types, arguments=(), keywords=None):
        self.count += 1
        return operator(*arguments, **(keywords or {}))


def test_a_twin_under_a_dispatch_mode_runs_unchanged():
    plain = layers()
    ours = recomputing(plain)
    with pytest.warns(UserWarning, match="TorchDispatchMode is active"), Counting() as counting:
        assert same(step(ours, X), step(plain, X))
    assert counting.count > 0
    assert same(step(ours, X), step(plain, X))
    assert ours.forward.first is not None


def test_a_twin_in_another_capture_runs_unchanged():
    """AOTAutograd runs a model twice: first to find its side effects, then to trace it."""
    plain = layers().eval()

    def boxed(module, _inputs):
        return make_boxed_func(module)

    def captured(model):
        call = aot_function(partial(functional_call, model), boxed)
        results = call(dict(model.named_parameters()), X)
        results.square().mean().backward()
        return [results.detach(), *(one.grad for one in model.parameters())]

    ours = captured(recomputing(plain, example_inputs=X))
    assert all(map(torch.equal, ours, captured(plain)))
