"""Tests of the peak of a real step, measured while the program runs."""

import threading
import warnings

import pytest
import torch
from torch import nn

from pgmo.recompute.capture.memory_use.meter import meter
from pgmo.recompute.capture.quiet import CAPTURING
from pgmo.recompute.compiled import measure
from pgmo.recompute.runtime import backward_passes
from tests.unit.recompute.compiled import models
from tests.unit.recompute.compiled.models import batch, step
from tests.unit.recompute.compiled.test_several_graphs import made
from tests.unit.recompute.steps import proposed, same

pytestmark = pytest.mark.filterwarnings("ignore:the forward pass is not a single graph")


@pytest.fixture(autouse=True)
def _engine():
    """Check that no measurement surrounds backward passes at the end of the test."""
    assert not backward_passes._surrounding
    yield
    assert not backward_passes._surrounding


class Returns(models.Blocks):
    """A model whose loss the program computes, which requests memory for it."""

    def forward(self, x, labels):
        for block in self.blocks:
            x = self.between(block(x))
        return self.head(x)


def test_computations_outside_of_the_model_are_not_measured():
    plain, model, plan = made(Returns)

    def run(one):
        one.zero_grad()
        torch.manual_seed(0)
        logits = one(*batch(0))
        large = logits.repeat(1, 512).exp()
        (large.mean() + nn.functional.cross_entropy(logits, batch(0)[1])).backward()
        return [one.grad for one in one.parameters()]

    for _ in range(3):
        assert same(run(model), run(plain))
    assert plan.measured_peak == pytest.approx(plan.peak, rel=0.02)


@pytest.mark.slow
def test_only_the_steps_own_backward_pass_is_measured():
    plain, model, plan = made(models.Blocks)
    other = torch.ones(1 << 16, requires_grad=True)
    torch.manual_seed(1)
    model(*batch(1))  # without a backward pass
    torch.manual_seed(2)
    loss = model(*batch(2))
    other.square().sum().backward()
    assert plan.measured_peak is None
    loss.backward()
    assert plan.measured_peak == pytest.approx(plan.peak, rel=0.01)
    assert same(step(model, batch(3), 3), step(plain, batch(3), 3))


def _twice(model, number):
    first, second = model(*batch(number)), model(*batch(number + 1))
    (first * second).mean().backward()


def _beside(model, number):
    beside = torch.ones(512, 256, requires_grad=True)
    (beside.exp().square().mean() + model(*batch(number)).mean()).backward()


def _some(model, number):
    torch.autograd.grad(model(*batch(number)).mean(), [model.head.weight])


def test_backward_passes_of_something_else_than_one_step_are_not_measured():
    _, model, plan = made(Returns, planner=proposed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="the model is called again before")
        for number, run in enumerate((_twice, _beside, _some)):
            model.zero_grad()
            run(model, number)
            assert plan.measured_peak is None


def test_other_backward_passes_are_not_measured(monkeypatch):
    _, model, _ = made(models.Blocks, planner=proposed)
    model(*batch(1))
    monkeypatch.setattr(measure, "meter", None)  # a call would be an error
    other = torch.ones(4, requires_grad=True)
    for _ in range(10):
        other.square().sum().backward()


def test_a_capture_does_not_wait_for_a_measured_step():
    seen = []

    class Asks(models.Blocks):
        asking = False

        def between(self, x):
            if Asks.asking:
                thread = threading.Thread(target=ask)
                thread.start()
                thread.join(timeout=30)
                assert not thread.is_alive()
            return super().between(x)

    def ask():
        with CAPTURING:
            seen.append(meter(torch.device("cpu")))

    _, model, plan = made(Asks, planner=proposed)
    Asks.asking = True
    step(model, batch(0), 0)
    assert plan.measured_peak is not None
    assert seen == [None] * 3


def test_steps_with_existing_gradients_are_not_measured():
    _, model, plan = made(models.Blocks)
    for one in model.parameters():
        one.grad = torch.zeros_like(one)
    model(*batch(1)).backward()  # adds to the existing gradients
    assert plan.measured_peak is None
    step(model, batch(2), 2)
    assert plan.measured_peak == pytest.approx(plan.peak, rel=0.01)


@pytest.mark.slow
def test_nothing_is_measured_during_a_profile():
    _, model, plan = made(models.Blocks)
    with torch.profiler.profile():
        step(model, batch(1), 1)
    assert plan.measured_peak is None
