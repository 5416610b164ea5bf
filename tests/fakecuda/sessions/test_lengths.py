"""Lengths that no plan knows: windows serve larger requests until the session plans again."""

import pytest

from tests.fakecuda.programs import run_program

BEGIN = '''
import json, pgmo, torch
from pgmo.allocator import heuristics
from tests.fakecuda.control import driver_calls, violations
heuristics.use(heuristics.Heuristics(price=0))  # plans serve at once
torch.cuda.memory.change_current_allocator(pgmo.torch_allocator())
def block(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")
state = []
def iterate(length, layers=12):
    """Activations, of which some grow with the square, weights of one size, and gradients.

    The first iteration leaves state behind."""
    kept = []
    for layer in range(layers):
        kept.append(block(length * (layer % 3 + 1) * 1000))
        scores = block(length * length // 2)
        kept.append(block(length * 700 + 4096))
        weights = block(3 << 20)
        del scores, weights
    state.extend(block(3 << 20) for _ in range(layers - len(state)))
    for layer in reversed(range(layers)):
        extra = block(length * 2300)
        gradient = block(length * (layer % 3 + 1) * 1000)
        del kept[-2:], extra
def train(lengths, **options):
    hits, moved = [], []
    with pgmo.optimize(device="cuda", **options) as session:
        for length in lengths:
            iterate(length)
            session.step()
            calls = driver_calls(reset=True)
            moved.append(calls["map"] - calls["create"])
            hits.append(session.history[-1].hit_bytes_rate)
    return hits, moved
'''

LENGTHS = {
    "one by one": [3000 + 160 * at for at in range(30)],
    "by leaps": [3000, 4000, 3500, 3000, 3600, 3900, 3100, 3000, 6000, 3000, 9000, 3000, 9000],
}


@pytest.mark.parametrize("check", ["0", "1"])
@pytest.mark.parametrize("name", LENGTHS)
def test_a_length_that_was_planned_for_is_served(name, check):
    lengths = [*LENGTHS[name], *[max(LENGTHS[name])] * 4, *[3000] * 6]
    program = f"{BEGIN}print(json.dumps([*train({lengths}), violations()]))"
    hits, moved, wrong = run_program(program, PGMO_CHECK=check)
    assert wrong == 0
    assert min(hits[-2:]) >= 0.99
    assert max(moved[-2:]) <= 20


def test_a_new_process_serves_lengths_between_and_below_those_that_were_run(tmp_path):
    known, new = [2000, 3000] * 4, [2500, 1000, 3000, 2200]
    first = f"{BEGIN}train({known}, save={str(tmp_path)!r}, model_name='loop')"
    run_program(f"{first}; print(0)")
    again = f"train({new}, plan={str(tmp_path / 'loop.pgmoplan')!r})"
    program = f"{BEGIN}print(json.dumps([*{again}, violations()]))"
    hits, moved, wrong = run_program(program)
    assert wrong == 0
    assert min(hits[1:]) >= 0.99
    assert hits[0] >= 0.8, "all but what is born"
    assert max(moved[1:]) <= 20
