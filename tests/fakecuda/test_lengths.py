"""Lengths that no plan has seen are planned for as they come."""

import json
from pathlib import Path

import pytest

from tests.fakecuda.programs import run_program

ROOT = Path(__file__).parents[2]

BEGIN = """
import json, pgmo, torch
from pgmo.allocator import tuning
from pgmo.rehearsal.control import driver_calls, violations
tuning.WAIT_PRICE = 0.0  # plans serve at once
torch.cuda.memory.change_current_allocator(pgmo.torch_allocator())
def block(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")
def iterate(length, layers=12):
    "Activations, of which some grow with the square, weights of one size, and gradients."
    kept = []
    for layer in range(layers):
        kept.append(block(length * (layer % 3 + 1) * 1000))
        scores = block(length * length // 2)
        kept.append(block(length * 700 + 4096))
        weights = block(3 << 20)
        del scores, weights
    for layer in reversed(range(layers)):
        extra = block(length * 2300)
        gradient = block(length * (layer % 3 + 1) * 1000)
        del kept[-2:], extra
hits, moved = [], []
with pgmo.optimize(device="cuda") as session:
    for length in lengths:
        iterate(length)
        session.step()
        calls = driver_calls(reset=True)
        moved.append(calls["map"] - calls["create"])
        hits.append(session.history[-1].hit_bytes_rate)
print(json.dumps([hits, moved, violations()]))
"""

LENGTHS = {
    "one by one": [3000 + 160 * at for at in range(30)],
    "by leaps": [3000, 4000, 3500, 3000, 3600, 3900, 3100, 3000, 6000, 3000, 9000, 3000, 9000],
}


@pytest.mark.parametrize("check", ["0", "1"])
@pytest.mark.parametrize("name", LENGTHS)
def test_a_new_longest_iteration_is_served_and_moves_next_to_nothing(name, check):
    program = f"lengths = {json.dumps(LENGTHS[name])}\n{BEGIN}"
    hits, moved, wrong = run_program(program, PYTHONPATH=str(ROOT), PGMO_CHECK=check)
    assert wrong == 0
    assert min(hits[8:]) >= 0.99
    assert max(moved[8:]) <= 20
