"""Tests of Inductor with a budget, on a network that compiles quickly."""

import copy

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import pgmo  # noqa: E402
from pgmo.recompute.capture.memory_use.meter import meter  # noqa: E402


class Chain(nn.Sequential):
    """A chain of matrix products, which Inductor saves, and of activations, which it recomputes."""

    def __init__(self, width=32, depth=10):
        super().__init__(*(nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(depth)))

    def forward(self, x):
        return super().forward(x).square().mean()


@pytest.fixture(autouse=True)
def fresh():
    from torch._inductor.utils import fresh_cache

    torch._dynamo.reset()
    with fresh_cache():
        yield
    torch._dynamo.reset()


def peak_of_a_step(model, x):
    model(x).backward()
    model.zero_grad()
    with meter(torch.device("cpu")) as measuring:
        model(x).backward()
    return measuring.peak


def check_within(budget, plain, x):
    """Check that the peak is within the budget, and that gradients are close to uncompiled ones."""
    plain(x).backward()
    ours = copy.deepcopy(plain)
    backend = pgmo.recompute.backend(budget, kernels="inductor")
    assert 0 < peak_of_a_step(torch.compile(ours, backend=backend, dynamic=False), x) <= budget
    for mine, its in zip(ours.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, its.grad)


@pytest.mark.slow
def test_the_peak_is_within_the_budget_and_gradients_are_close():
    torch.manual_seed(0)
    plain, x = Chain(), torch.randn(1024, 32)
    check_within(peak_of_a_step(copy.deepcopy(plain), x) // 2, plain, x)


@pytest.mark.slow
def test_the_peak_is_below_inductors_own():
    torch.manual_seed(0)
    plain, x = Chain(), torch.randn(1024, 32)
    by_itself = peak_of_a_step(torch.compile(copy.deepcopy(plain), dynamic=False), x)
    torch._dynamo.reset()
    check_within(int(0.75 * by_itself), plain, x)
