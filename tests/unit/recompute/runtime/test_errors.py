"""Tests that a step that ends with an error leaves no frames and no pending copies."""

import pytest
import torch
from torch import nn

import pgmo
from pgmo.recompute.runtime.offload.host import HostArenas
from tests.held_frames import (
    FailsInBackward,
    alive_after_error,
    alive_with_error,
    failing,
    fails,
)


class FailsInForward(torch.autograd.Function):
    @staticmethod
    def forward(_ctx, x):
        return fails(x)

    @staticmethod
    def backward(_ctx, gradient):
        return gradient.clone()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        hidden = torch.relu(FailsInForward.apply(self.first(x)))
        return FailsInBackward.apply(self.second(hidden))


@pytest.fixture(scope="module")
def model():
    model, _ = pgmo.recompute(Net(), torch.ones(4, 8), measure=False)
    model(torch.ones(4, 8)).sum().backward()
    return model


def test_in_the_backward_pass(model):
    def run(noted):
        result = noted("result", model(noted("input", torch.ones(4, 8))))
        with failing():
            result.sum().backward()

    assert alive_with_error(run) == []
    assert alive_after_error(run) == []


def test_in_the_forward_pass(model):
    def run(noted):
        with failing(), torch.enable_grad():
            model(noted("input", torch.ones(4, 8)))

    assert alive_after_error(run) == []


class Event:
    waited = False

    def synchronize(self):
        self.waited = True


def test_copies_in_progress_are_waited_for_and_freed():
    host, event = HostArenas(), Event()

    def run(_arguments):
        host._in_flight[1, 0] = event, torch.ones(4)
        raise torch.OutOfMemoryError("no")

    with pytest.raises(torch.OutOfMemoryError):
        host.guarded(run)([])
    assert event.waited
    assert not host._in_flight
    assert host.guarded(len)([1]) == 1
