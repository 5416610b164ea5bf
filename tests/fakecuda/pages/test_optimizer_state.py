"""Optimizer state gets its own pages, although activations were freed just before."""

import pytest

from tests.fakecuda.pages.block_program import MIB, run

PROGRAM = """
layers = [torch.nn.Parameter(block(1.5).view(torch.float32)) for _ in range(24)]
optimizer = torch.optim.Adam(layers, lr=0.1)

def loss():
    for layer in layers:
        activation = block(1.5)
        layer.grad = torch.zeros_like(layer)
        kept.append(activation)
    kept.clear()
    return torch.zeros(())

kept = []
"""


@pytest.mark.parametrize("step", ["loss(); optimizer.step()", "optimizer.step(loss)"])
def test_states_pin_no_more_pages_than_they_fill(step):
    held, live = run(
        PROGRAM
        + step
        + """
optimizer.zero_grad()
torch.cuda.empty_cache()
report(used(), torch.cuda.memory_allocated())
"""
    )
    assert live >= 3 * 24 * 1536 << 10
    assert held <= live + 4 * MIB
