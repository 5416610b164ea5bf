"""Tests that recomputation keeps every bit and its budget on a CUDA device."""

import copy

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import pgmo  # noqa: E402
from pgmo.recompute.planners.planning import plan_choice  # noqa: E402
from tests.gpu.device import STUB  # noqa: E402
from tests.integration.networks import make  # noqa: E402
from tests.unit.recompute.steps import dice  # noqa: E402

NETWORKS = ["unet", "resnet", "densenet", "gpt"]


class Unread(nn.Module):
    """Two convolutions; only the second one reads its large input."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(4, 16, 3, padding=1)
        self.second = nn.Conv2d(64, 4, 3, padding=1)

    def forward(self, x):
        h = self.first(x).sigmoid()
        return self.second(torch.cat([h] * 4, 1)).square().mean()


def on_device(name):
    if name == "unread":
        torch.manual_seed(0)
        return Unread().cuda(), (torch.rand(8, 4, 64, 64, device="cuda"),)
    model, batch = make(name)
    return model.cuda(), tuple(one.cuda() for one in batch)


def quick(graph, budget):
    return plan_choice(graph, budget, evaluations=5000)


def step(model, batch):
    """Return the loss, gradients and buffers of a step, and its peak in bytes."""
    for one in model.parameters():
        one.grad = None
    torch.manual_seed(0)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    loss = model(*batch)
    loss.backward()
    torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated() - before
    gradients = [one.grad.clone() for one in model.parameters()]
    return [loss.detach(), *gradients, *(one.clone() for one in model.buffers())], peak


@pytest.mark.parametrize("name", [*NETWORKS, "unread"])
def test_the_same_bits_within_the_budget(name):
    plain, batch = on_device(name)
    model, plan = pgmo.recompute(copy.deepcopy(plain), batch, "min", planner=quick)
    assert plan.recomputed
    step(model, batch)  # the step is measured, and may be planned again
    model.load_state_dict(plain.state_dict())
    expected, default = step(plain, batch)
    found, peak = step(model, batch)
    if not STUB:
        assert all(map(torch.equal, found, expected))
    assert peak < default
    assert peak == pytest.approx(plan.peak, rel=0.02, abs=64 * 512)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["unet", "gpt"])
def test_the_same_bits_when_values_wait_on_the_host(name, seed):
    """The planner chooses values at random, which are copied on another stream."""
    plain, batch = on_device(name)
    model, plan = pgmo.recompute(copy.deepcopy(plain), batch, "min", planner=dice(seed, 0.2))
    assert plan.offloaded
    step(model, batch)
    for _ in range(3):  # the device lags, and buffers on the host are reused
        model.load_state_dict(plain.state_dict())
        found, peak = step(model, batch)
    expected, _ = step(plain, batch)
    if not STUB:
        assert all(map(torch.equal, found, expected))
    assert peak <= 1.02 * plan.peak + 64 * 512


def test_recomputed_blocks_are_planned_and_replayed():
    plain, batch = on_device("gpt")
    model, _ = pgmo.recompute(plain, batch, "min", planner=quick)
    step(model, batch)
    with pgmo.optimize(device="cuda", tags=True) as session:
        for _ in range(6):
            with session.iteration():
                step(model, batch)
    assert session.history[-1].hit_bytes_rate >= 0.99
    assert {tag.phase for tag in session.profile.tags if tag} >= {"recompute"}


def test_the_peak_that_a_program_asks_for_is_its_own():
    """The measurement of a step does not reset the allocator's statistics."""
    before = torch.empty(1 << 28, dtype=torch.uint8, device="cuda")
    del before
    torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated()
    plain, batch = on_device("gpt")
    model, plan = pgmo.recompute(plain, batch, 0.9, planner=quick)
    model(*batch).backward()
    assert plan.measured_peak == pytest.approx(plan.peak, rel=0.02, abs=64 * 512)
    assert torch.cuda.max_memory_allocated() == peak
