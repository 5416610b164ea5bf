"""Tests with markers of pgmo's plug-in, which `test_pytest_plugin` runs; needs torch."""

import os

import pytest
import torch
from torch import nn

import pgmo

WIDTH = int(os.environ.get("PGMO_TEST_WIDTH", "256"))
PEAKS = []


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(64, WIDTH), nn.Linear(WIDTH, 4)

    def forward(self, batch):
        return self.last(self.first(batch).relu())


def step(batch=512):
    torch.manual_seed(0)
    net = Net()
    net(torch.randn(batch, 64)).square().mean().backward()


@pytest.mark.max_memory("4 MiB", device="cpu")
def test_within():
    step()


@pytest.mark.max_memory("100 KiB", device="cpu")
def test_beyond():
    step()


@pytest.mark.max_memory("4 MiB", device="cpu")
def test_wrong_by_itself():
    raise AssertionError("two and two")


@pytest.mark.max_memory("4 MiB", limit=3)
def test_unknown_argument():
    step()


@pytest.mark.max_memory("four", device="cpu")
def test_no_size():
    step()


@pytest.mark.max_memory("4 MiB", device="cpu")
def test_with_a_session():
    with pgmo.optimize(device="cpu") as session, session.iteration():
        step()


@pytest.mark.max_memory("1 B", device="cpu")
def test_without_torch():
    """Request nothing."""


def test_parts(pgmo_profile):
    for name in ("one", "two"):
        with pgmo_profile(name, device="cpu") as recorded:
            step()
        PEAKS.append(recorded.peak)
    assert PEAKS[0] == PEAKS[1] > 0
    with pytest.raises(ValueError, match="already recorded 'one'"):
        with pgmo_profile("one"):
            pass
