"""The pytest plug-in with the allocator of a card."""

import torch
from torch import nn

pytest_plugins = ("pytester",)


def step():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 8)).to("cuda")
    net(torch.randn(64, 256, device="cuda")).square().mean().backward()


def test_the_same_step_asks_for_the_same(pgmo_profile):
    fingerprints = set()
    for name in ("first", "again", "later"):
        with pgmo_profile(name, device="cuda") as recorded:
            step()
        assert recorded.device == "cuda:0"
        fingerprints.add((recorded.profile.fingerprint, recorded.peak))
        torch.zeros(1 << 20, device="cuda")  # not in a measured call, so it does not count
    assert len(fingerprints) == 1


def test_the_peak_is_that_of_pytorch(pgmo_profile):
    step()
    before = torch.cuda.memory_allocated()
    with pgmo_profile(device="cuda") as recorded:
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        step()
        taken = torch.cuda.max_memory_allocated() - before
    assert recorded.profile.max_load(recorded.profile.alignment) == taken
