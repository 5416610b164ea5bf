"""After an error in a backward pass on a card nothing of the step is alive, whoever has the GIL."""

import sys

import pytest
import torch
from torch import nn

import pgmo
from tests.held_frames import too_large, without_collector


@pytest.fixture(autouse=True)
def the_program_keeps_the_gil():
    """Unless it gives it away."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    yield
    sys.setswitchinterval(before)


def alive_after_a_failed_step(net):
    """Bytes; the first request of the backward pass is for 256 TiB."""
    before = torch.cuda.memory_allocated()
    with without_collector():
        with pytest.raises(torch.OutOfMemoryError):
            too_large(net(torch.ones(64, 64, device="cuda"))).square().sum().backward()
        return torch.cuda.memory_allocated() - before


def layers():
    """After a step, in which cuBLAS takes workspaces for good."""
    net = nn.Sequential(*[one for _ in range(4) for one in (nn.Linear(64, 64), nn.ReLU())]).cuda()
    net(torch.ones(64, 64, device="cuda")).square().sum().backward()
    net.zero_grad()
    return net


def test_while_a_session_records():
    net = layers()
    with pgmo.optimize(device="cuda", pages=False) as session:
        alive_after_a_failed_step(net)  # what other tests have left may go with it
        for _ in range(10):
            assert alive_after_a_failed_step(net) == 0
        session.step()
