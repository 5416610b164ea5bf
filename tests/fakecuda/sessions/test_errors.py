"""After an error in a backward pass on a card, no tensor of the step is alive."""

import sys

import pytest
import torch
from torch import nn

import pgmo
from tests.held_frames import too_large, without_collector


@pytest.fixture(autouse=True)
def the_program_keeps_the_gil():
    """Let the running thread keep the GIL until it releases it."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    yield
    sys.setswitchinterval(before)


def alive_after_a_failed_step(net):
    """Return the bytes that are alive after a step whose backward pass requests 256 TiB."""
    before = torch.cuda.memory_allocated()
    with without_collector():
        with pytest.raises(torch.OutOfMemoryError):
            too_large(net(torch.ones(64, 64, device="cuda"))).square().sum().backward()
        return torch.cuda.memory_allocated() - before


def layers():
    """Return a network after one step, so that cuBLAS has allocated its workspaces."""
    net = nn.Sequential(*[one for _ in range(4) for one in (nn.Linear(64, 64), nn.ReLU())]).cuda()
    net(torch.ones(64, 64, device="cuda")).square().sum().backward()
    net.zero_grad()
    return net


def test_while_a_session_records():
    net = layers()
    with pgmo.optimize(device="cuda", pages=False) as session:
        alive_after_a_failed_step(net)  # this may also free blocks that other tests have left
        for _ in range(10):
            assert alive_after_a_failed_step(net) == 0
        session.step()
