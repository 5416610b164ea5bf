"""A forward pass that changes what it reads, or draws numbers not from PyTorch, is refused."""

import copy
import gc
import random
import weakref
from contextvars import ContextVar

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import pgmo  # noqa: E402
from tests.unit.recompute.frozen.recapture import X, made  # noqa: E402

GENERATOR = random.Random(0)


class Counts(nn.Linear):
    """Changes itself."""

    def __init__(self, what):
        super().__init__(16, 16)
        self.what, self.steps, self.seen, self.last, self.size = what, 0, [], None, None

    def forward(self, x):
        y = super().forward(x)
        if self.what == "steps":
            self.steps += 1
        elif self.what == "seen":
            self.seen.append(y.detach())
        elif self.what == "last":
            self.last = y
        else:
            self.size = tuple(x.shape)
        return y.square().mean()


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("steps", r"changes model\.steps each time.*test_side_effects\.py:\d+: self\.steps \+= 1"),
        ("seen", r"keeps a tensor in model\.seen, at .*self\.seen\.append"),
        ("last", r"keeps a tensor in model\.last, at .*self\.last = y"),
    ],
)
def test_a_forward_pass_that_changes_the_model_is_refused_and_leaves_it(what, message):
    plain = Counts(what)
    with pytest.raises(pgmo.errors.GraphError, match=message):
        made(plain)
    assert plain.last is None
    assert plain.seen == []
    plain(X)


def test_a_forward_pass_may_note_what_stays_the_same():
    model = made(Counts("size"))
    model(X).backward()
    assert model.size == (8, 16)


class Draws(nn.Linear):
    def __init__(self, draw):
        super().__init__(16, 16)
        self.draw, self.own = draw, random.Random(0)

    def forward(self, x):
        y = super().forward(x).square().mean()
        if self.draw == "python":
            return y * random.random()
        if self.draw == "numpy":
            return y * float(np.random.rand())  # noqa: NPY002
        if self.draw == "global":
            return y * GENERATOR.random()
        return y * self.own.random()


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        ("python", r"draws random numbers of Python, at .*return y \* random\.random\(\)"),
        ("numpy", r"draws random numbers of NumPy, at .*np\.random\.rand"),
        ("own", r"changes model\.own"),
        ("global", r"changes the global GENERATOR"),
    ],
)
def test_random_numbers_that_are_not_of_pytorch(draw, message):
    before = random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    with pytest.raises(pgmo.errors.GraphError, match=message):
        made(Draws(draw))
    after = random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    assert after == before


def test_hooks_that_a_first_forward_pass_registers_are_not_there_twice(monkeypatch):
    """As transformers does, whose outputs were collected once more for each attempt to capture."""
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
            if bool(x.sum() > 0):  # read: the forward pass runs once more, to be looked at
                y = y * 2
            y = y + sum(collected.get())
            collected.reset(token)
            return y

    def collect(_module, _given, result):
        collected.get().append(result.mean())

    monkeypatch.setattr("pgmo.recompute.frozen.hooks._HARMLESS", (__name__,))
    plain = Collects()
    model = pgmo.recompute(copy.deepcopy(plain), torch.ones(2, 4), 1.0, measure=False)[0]
    assert torch.equal(model(torch.ones(2, 4)), plain(torch.ones(2, 4)))
    assert len(model.inner._forward_hooks) == 1


def test_what_attributes_held_when_it_was_captured_may_go():
    class Teacher:
        pass

    plain = nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 4))
    plain.teacher = [Teacher()]
    held = weakref.ref(plain.teacher[0])
    model = pgmo.recompute(plain, torch.ones(2, 4), "min", planner="min-cut", measure=False)[0]
    model(torch.ones(2, 4)).sum().backward()
    model.teacher = None
    gc.collect()
    assert held() is None
