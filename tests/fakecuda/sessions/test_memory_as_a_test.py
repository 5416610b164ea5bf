"""The plug-in on the allocator of a card."""

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
        torch.zeros(1 << 20, device="cuda")  # what lies between does not count
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


def test_a_marked_test_that_holds_too_much_fails(pytester):
    pytester.makepyfile(
        """
        import pytest, torch

        @pytest.mark.max_memory("1 MiB", device="cuda")
        def test_beyond():
            torch.zeros(1 << 20, device="cuda")
        """
    )
    done = pytester.runpytest_inprocess("-p", "pgmo.integrations.pytest_plugin")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*test_beyond holds 4.00 MiB at once on cuda:0, 3.00 MiB more*"])
