"""Tests of wrappers of optimizers that do not call `Optimizer.__init__`, as accelerate's."""

import pytest

torch = pytest.importorskip("torch")

from pgmo.allocator.sleeping.storages import listed  # noqa: E402
from pgmo.recompute.apply import RecomputeOptions  # noqa: E402
from pgmo.wrapped_optimizers import unwrapped  # noqa: E402


class Wrapper(torch.optim.Optimizer):
    """A wrapper like the one of accelerate."""

    def __init__(self, optimizer):
        self.optimizer = optimizer


@pytest.fixture
def optimizer():
    return torch.optim.AdamW(torch.nn.Linear(2, 2).parameters())


def test_wrappers_are_taken_off(optimizer):
    assert unwrapped(optimizer) is optimizer
    assert unwrapped(Wrapper(Wrapper(optimizer))) is optimizer
    module = torch.nn.Linear(2, 2)
    module.optimizer = "a name of its own"
    assert unwrapped(module) is module


def test_sleep_and_recomputation_take_the_optimizer_itself(optimizer):
    assert listed([{"a": Wrapper(optimizer)}]) == [optimizer]
    assert RecomputeOptions(optimizer=Wrapper(optimizer)).optimizer is optimizer
