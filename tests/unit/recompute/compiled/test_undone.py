"""Tests that side effects of a forward pass happen once in a step, and not in a capture."""

import copy
import gc
import random
import warnings
import weakref
from collections import deque
from contextvars import ContextVar

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import pgmo
from tests.unit.recompute.steps import proposed, same, step

pytestmark = pytest.mark.filterwarnings(
    "ignore:the forward pass is not a single graph", "ignore:Dynamo does not know how to trace"
)

X = torch.linspace(-1, 1, 8 * 16).reshape(8, 16)


class State:
    def __init__(self):
        self.calls, self.seen = 0, []


class Counts(nn.Linear):
    """A layer that changes attributes, containers, objects and buffers of its own."""

    def __init__(self):
        super().__init__(16, 16)
        self.steps, self.last, self.size = 0, None, None
        self.seen, self.queue, self.names = [], deque(maxlen=2), {"calls": 0}
        self.state, self.table = State(), torch.zeros(2)
        self.register_buffer("mean", torch.zeros(16))
        self.norm = nn.BatchNorm1d(16)

    def forward(self, x):
        y = self.norm(super().forward(x))
        self.steps += 1
        self.names["calls"] += 1
        self.state.calls += 1
        self.seen.append(y.detach())
        self.state.seen.append(self.steps)
        self.queue.append(self.steps)
        self.last, self.size = y, tuple(x.shape)
        self.table += 1
        self.mean = 0.9 * self.mean + x.mean(0)
        return (y + self.mean).square().mean()


def left(model):
    """Return the state that steps have left in a model."""
    return [
        *(model.steps, model.names, model.state.calls, model.state.seen, len(model.seen)),
        *(list(model.queue), model.size, model.last is None, model.table.tolist()),
        *(one.tolist() for one in model.buffers()),
        *(one.grad is None for one in model.parameters()),
    ]


def test_attributes_that_a_forward_pass_changes_are_those_of_the_plain_model():
    plain = Counts()
    model = copy.deepcopy(plain)
    before = left(model), {id(one) for one in vars(model).values()}
    versions = [one._version for one in model.parameters()]
    hook = model.weight.register_hook(lambda _gradient: pytest.fail("a hook ran"))
    given, drawn = X.clone(), torch.get_rng_state()
    ours, _ = pgmo.recompute(model, given, 1.0, measure=False)
    hook.remove()
    assert torch.equal(given, X)
    assert torch.equal(torch.get_rng_state(), drawn)
    assert (left(model), {id(one) for one in vars(model).values()}) == before
    assert [one._version for one in model.parameters()] == versions
    for number in range(3):
        assert same(step(ours, X, seed=number), step(plain, X, seed=number))
        assert left(ours) == left(plain)
    assert torch.equal(ours.last, plain.last)
    assert all(map(torch.equal, ours.seen, plain.seen))


def numpy_number():
    return float(np.random.rand())  # noqa: NPY002


class Draws(nn.Linear):
    """A layer whose loss has a random factor, drawn by Python code."""

    def __init__(self, draw):
        super().__init__(16, 16)
        self.draw, self.drawing = draw, np.random.default_rng(0)
        self.generator = torch.Generator().manual_seed(0)
        self.own = random.Random(0)

    def forward(self, x):
        y = super().forward(x).square().mean()
        if self.draw == "python":
            return y * random.random()
        if self.draw == "numpy":
            return y * numpy_number()
        if self.draw == "own":
            return functional.linear(y.view(1, 1), torch.full((1, 1), self.own.random())).sum()
        if self.draw == "numpy generator":
            return y * float(self.drawing.random())
        if self.draw == "generator":
            return y * torch.rand((), generator=self.generator)
        return y if random.random() < 0.5 else 2 * y


@pytest.mark.parametrize(
    "draw", ["python", "own", "numpy", "numpy generator", "generator", "decision"]
)
def test_random_numbers_that_python_draws_are_those_of_the_plain_model(draw):
    plain = Draws(draw)
    drawing, bits = copy.deepcopy(plain.drawing), plain.generator.get_state()
    model, _ = pgmo.recompute(copy.copy(plain), X, 1.0, measure=False)

    def losses(one):
        one.drawing = copy.deepcopy(drawing)
        one.own = random.Random(0)
        one.generator.set_state(bits)
        np.random.seed(0)  # noqa: NPY002
        return [step(one, X, seed=number) for number in range(4)]

    before = random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    pgmo.recompute(Draws(draw), X, 1.0, measure=False)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before  # noqa: NPY002
    for ours, theirs in zip(losses(model), losses(plain), strict=True):
        assert same(ours, theirs)


calls, seen = 0, torch.zeros(2)
own, drawing = random.Random(0), np.random.default_rng(0)
generator = torch.Generator().manual_seed(0)


def count():
    global calls
    calls += 1
    seen.add_(1)


class UsesGlobals(nn.Linear):
    """A layer that counts and draws with global variables."""

    def forward(self, x):
        count()
        factor = own.random() + drawing.random() + torch.rand((), generator=generator)
        return (super().forward(x) * factor).square().mean()


def globals_():
    """Return the values of the global variables."""
    bits = generator.get_state().tolist(), drawing.bit_generator.state["state"]
    return calls, seen.tolist(), own.getstate(), *bits


def test_global_variables_are_those_of_the_plain_model():
    plain = UsesGlobals(16, 16)
    before = globals_()
    model = pgmo.recompute(copy.deepcopy(plain), X, 1.0, measure=False)[0]
    assert globals_() == before
    begin = own.getstate(), drawing.bit_generator.state, generator.get_state()
    theirs = [step(plain, X) for _ in range(2)]
    own.setstate(begin[0])
    drawing.bit_generator.state = begin[1]
    generator.set_state(begin[2])
    assert all(same(step(model, X), one) for one in theirs)
    assert calls == before[0] + 4


def test_a_forward_pass_may_write_into_a_parameter():
    class Normalises(nn.Linear):
        def forward(self, x):
            with torch.no_grad():
                self.weight.div_(self.weight.norm().item())
            return super().forward(x).mean()

    plain = Normalises(16, 16)
    model = copy.deepcopy(plain)
    ours, _ = pgmo.recompute(model, X, measure=False)
    assert torch.equal(model.weight, plain.weight)
    for _ in range(2):
        assert same(step(ours, X), step(plain, X))
        assert torch.equal(model.weight, plain.weight)


def test_hooks_that_a_first_forward_pass_registers_are_not_there_twice():
    """transformers registers hooks in the first pass; a capture must not register them again."""
    collected = ContextVar("collected")

    class Collects(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.installed = nn.Linear(4, 4), False

        def forward(self, x):
            if not self.installed:
                self.inner.register_forward_hook(collect)
                self.installed = True
            token = collected.set([])
            y = self.inner(x)
            if bool(x.sum() > 0):
                y = y * 2
            y = y + sum(collected.get())
            collected.reset(token)
            return y

    def collect(_module, _given, result):
        collected.get().append(result.mean())

    plain, x = Collects(), torch.ones(2, 4)
    model = pgmo.recompute(copy.deepcopy(plain), x, 1.0, measure=False)[0]
    assert same(step(model, x), step(plain, x))
    assert len(model.inner._forward_hooks) == 1


def test_captures_do_not_keep_attribute_values_alive():
    class Teacher:
        pass

    plain = nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 4))
    plain.teacher = [Teacher()]
    held = weakref.ref(plain.teacher[0])
    model = pgmo.recompute(plain, torch.ones(2, 4), "min", planner=proposed, measure=False)[0]
    model(torch.ones(2, 4)).sum().backward()
    model.teacher = None
    gc.collect()
    assert held() is None


@pytest.mark.parametrize("breaks", [False, True])
def test_a_model_that_is_deleted_frees_its_parameters(breaks):
    """Dynamo keeps graphs in its own modules, which must not keep the parameters."""

    class Halves(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 64)

        def forward(self, x):
            x = torch.relu(self.first(x))
            if breaks:
                torch._dynamo.graph_break()
            return torch.relu(self.second(x))

    def trained():
        inner = Halves()
        with warnings.catch_warnings(action="ignore"):
            model, _ = pgmo.recompute(inner, torch.randn(512, 64), "min")
            model(torch.randn(512, 64)).sum().backward()
        return [weakref.ref(one) for one in (model, inner, *inner.parameters())]

    held = trained()
    gc.collect()
    assert [one() for one in held] == [None] * 6
