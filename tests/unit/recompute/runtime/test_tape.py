import gc
import weakref

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import pgmo  # noqa: E402
from pgmo.recompute.capture.taking.meter import meter  # noqa: E402
from pgmo.recompute.runtime.without_graph.tape import Tape  # noqa: E402


class Block(nn.Module):
    """Views, writing in place, statistics, random numbers, a constant, and a residual."""

    def __init__(self, marked, body=None):
        super().__init__()
        self.conv, self.norm, self.drop = (
            nn.Conv2d(4, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.Dropout(),
        )
        self.marked, self.runs = marked, 0

    def body(self, x):
        self.runs += 1
        y = torch.relu_(self.norm(self.conv(x)))
        first, second = y.chunk(2, 1)
        y = self.drop(torch.cat([second, first], 1).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        y = y * y.sigmoid()
        y.add_(torch.full((4, 1, 1), 0.5))
        return y.tanh()

    def forward(self, x):
        if not self.marked:
            return x + self.body(x)
        with pgmo.recompute.forget():
            return x + self.body(x)


def trained(marked, size=8):
    torch.manual_seed(0)
    model = nn.Sequential(*(Block(marked) for _ in range(3)))
    images = torch.randn(2, 4, size, size)
    with meter(torch.device("cpu")) as measured:
        loss = model(images).square().mean()
        loss.backward()
    state = [loss.detach(), *(one.grad for one in model.parameters()), *model.buffers()]
    return state, measured.whole.peak, model


def test_a_region_gives_the_same_bits_and_takes_less():
    plain, before, _ = trained(marked=False, size=32)
    forgetful, after, model = trained(marked=True, size=32)
    assert all(torch.equal(one, other) for one, other in zip(plain, forgetful, strict=True))
    assert after < 0.75 * before
    assert all(block.runs == 1 for block in model)  # the code runs once


def test_a_graph_can_be_gone_through_twice():
    layer = nn.Linear(4, 4)
    with pgmo.recompute.forget():
        loss = layer(torch.ones(2, 4)).sigmoid().sigmoid().sum()
    loss.backward(retain_graph=True)
    first = layer.weight.grad.clone()
    loss.backward()
    assert torch.equal(layer.weight.grad, 2 * first)


def test_a_change_in_place_is_an_error_as_without_a_region():
    weight = torch.ones(3, requires_grad=True)
    other = torch.ones(3)
    with pgmo.recompute.forget():
        loss = (weight * other).exp().sum()
    other.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_so_is_a_change_of_what_is_only_saved():
    weight = torch.ones(3, requires_grad=True)
    other = torch.ones(3)
    with pgmo.recompute.forget():
        loss = (weight * other).sum()
    other.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_without_gradients_a_region_does_nothing():
    with torch.no_grad(), pgmo.recompute.forget():
        assert torch.equal(torch.ones(2) + 1, torch.full((2,), 2.0))


def test_nothing_is_left_of_a_step():
    tape = Tape()
    gone = weakref.ref(tape)
    layer = nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.Sigmoid())
    with torch.autograd.graph.saved_tensors_hooks(tape.pack, tape.unpack), tape:
        loss = layer(torch.ones(2, 4)).sum()
    loss.backward()
    del loss, tape
    gc.collect()
    assert gone() is None
