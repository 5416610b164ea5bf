"""Inductor with a budget: real compilation, of a network small enough for it to be quick."""

import copy

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import pgmo  # noqa: E402
from pgmo.recompute.capture import compat  # noqa: E402
from pgmo.recompute.capture.meter import meter  # noqa: E402

pytestmark = pytest.mark.skipif(compat.version() < (2, 10), reason="inductor has no place for it")


class Chain(nn.Sequential):
    """Products, whose results inductor saves, and what it fuses and computes again anyway."""

    def __init__(self, width=32, depth=10):
        super().__init__(*(nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(depth)))

    def forward(self, x):
        return super().forward(x).square().mean()


@pytest.fixture(autouse=True)
def fresh():
    from torch._inductor.utils import fresh_cache

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch._dynamo.reset()
    with fresh_cache():
        yield
    torch._dynamo.reset()
    torch.set_num_threads(before)


def peak_of_a_step(model, x):
    model(x).backward()
    model.zero_grad()
    with meter(torch.device("cpu")) as measuring:
        model(x).backward()
    return measuring.whole.peak


def test_the_peak_is_below_inductors_own_and_gradients_are_close():
    torch.manual_seed(0)
    plain, x = Chain(), torch.randn(1024, 32)
    plain(x).backward()
    own, ours = copy.deepcopy(plain), copy.deepcopy(plain)
    by_itself = peak_of_a_step(torch.compile(own, dynamic=False), x)
    torch._dynamo.reset()
    budget = int(0.75 * by_itself)
    backend = pgmo.recompute.backend(budget, kernels="inductor")
    assert 0 < peak_of_a_step(torch.compile(ours, backend=backend, dynamic=False), x) <= budget
    for mine, its in zip(ours.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, its.grad)
