"""A loop that fits into PyTorch's idle memory has nothing to plan, and continues."""

import torch

import pgmo
from pgmo.allocator.session.statistics import Phase

ELEMENTS = 1 << 20  # 4 MiB, in a segment of 20


def test_a_loop_that_idle_memory_serves_goes_on_without_a_plan():
    torch.cuda.empty_cache()
    held = torch.zeros(ELEMENTS, device="cuda")
    before = torch.cuda.memory_reserved()
    with pgmo.optimize(device="cuda", tags=False) as session:
        for _ in range(10):
            with session.iteration():
                for _ in range(2):
                    held + 1
        assert session.phase is not Phase.REPLAY
        assert torch.cuda.memory_reserved() <= before + held.nbytes
        assert "idle memory" in str(session.summary())
