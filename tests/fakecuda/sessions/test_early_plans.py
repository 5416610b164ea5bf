"""The second iteration of a first run is served from a plan of the first, whatever that was."""

import pytest

from tests.fakecuda.programs import ROOT, run_program

BEGIN = """
import json, pgmo, torch
from torch import nn
from pgmo.rehearsal.control import driver_calls, violations
from pgmo.allocator import tuning
tuning.ROOM_SHARE = 1  # an early plan serves, though it may take a page more than windows would
torch.cuda.memory.change_current_allocator(pgmo.torch_allocator())
make = nn.Linear
def network():
    layers = [layer for _ in range(6) for layer in (make(1024), nn.GELU())]
    return nn.Sequential(*layers, make(1024)).cuda()
"""

LOOP = """
seen, hits, moved = [], [], []
with pgmo.optimize(device="cuda") as session:
    for at in range(12):
        step(at)
        session.step()
        calls = driver_calls(reset=True)
        moved.append(calls["map"] - calls["create"])
    history = [(str(one.phase), one.hit_bytes_rate) for one in session.history]
print(json.dumps([*zip(*history), moved, violations()]))
"""

PROGRAMS = {
    "zero_grad_at_the_end": """
def step(at):
    model(torch.zeros(512, 1024, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
""",
    "zero_grad_at_the_beginning": """
def step(at):
    optimizer.zero_grad()
    model(torch.zeros(512, 1024, device="cuda")).sum().backward()
    optimizer.step()
""",
    "gradients_meet": """
def step(at):
    batch = torch.zeros(512, 1024, device="cuda", requires_grad=True)
    (model(batch) + model(batch.exp())).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
""",
    "gradients_meet_in_a_skip_connection": """
down, up = nn.Linear(1024, 1024, device="cuda"), nn.Linear(2048, 64, device="cuda")
optimizer.add_param_group({"params": [*down.parameters(), *up.parameters()]})
def step(at):
    batch = model(torch.zeros(512, 1024, device="cuda"))
    wide = batch.relu()[:, :1024]
    up(torch.cat((wide, down(wide)), 1)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
""",
    "a_smaller_first_batch": """
def step(at):
    batch = torch.zeros(64 if at == 0 else 512, 1024, device="cuda")
    model(batch).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
""",
    "a_first_step_that_is_skipped": """
def step(at):
    model(torch.zeros(512, 1024, device="cuda")).sum().backward()
    if at > 0:
        optimizer.step()
    optimizer.zero_grad()
""",
}


def run(code, **environment):
    build = (
        "model = network()\noptimizer = torch.optim.AdamW(model.parameters())\n"
        if "optimizer =" not in code
        else ""
    )
    make = "make = lambda size: nn.Linear(1024, size)\n"
    return run_program(BEGIN + make + build + code + LOOP, PYTHONPATH=str(ROOT), **environment)


@pytest.mark.parametrize("name", PROGRAMS)
def test_any_first_iteration_ends_in_a_plan_that_moves_nothing(name):
    phases, hits, moved, wrong = run(PROGRAMS[name], PGMO_CHECK="1")
    assert wrong == 0
    assert phases[-6:] == ["replay"] * 6
    assert all(rate >= 0.99 for rate in hits[-6:])
    assert moved[-6:] == [0] * 6


def test_the_second_iteration_is_served_and_the_third_moves_nothing():
    phases, hits, moved, _ = run(PROGRAMS["zero_grad_at_the_end"])
    assert phases[1] == "record"
    assert all(rate >= 0.95 for rate in hits[1:])
    assert moved[2:] == [0] * 10


def test_gradients_that_cannot_meet_in_place_are_planned_apart():
    """Autograd adds to a part of a concatenation's gradient out of place, watched or not."""
    _, hits, moved, _ = run(PROGRAMS["gradients_meet_in_a_skip_connection"])
    assert all(rate >= 0.95 for rate in hits[1:])
    assert moved[2:] == [0] * 10


@pytest.mark.parametrize("name", ["gradients_meet", "a_smaller_first_batch"])
def test_the_third_iteration_is_served_where_the_second_was_another(name):
    """Tags make sums of gradients out of place, where autograd may do without or not."""
    _, hits, moved, _ = run(PROGRAMS[name])
    assert hits[1] < 0.95
    assert all(rate >= 0.95 for rate in hits[2:])
    assert moved[4:] == [0] * 8


def test_lazy_modules_are_no_exception():
    code = """
make = nn.LazyLinear
model = network()
model(torch.zeros(512, 1024, device="cuda"))
optimizer = torch.optim.AdamW(model.parameters())
"""
    lazy = code + PROGRAMS["zero_grad_at_the_end"]
    phases, hits, *_ = run(lazy)
    assert phases[-6:] == ["replay"] * 6
    assert all(rate >= 0.99 for rate in hits[-6:])


def test_iterations_that_are_cut_short_for_ever_do_not_plan_for_ever():
    code = """
import json, pgmo, torch
from pgmo.allocator import tuning
from pgmo.allocator.session.learning import early_service
made, own = [], early_service.from_single
def counted(*arguments):
    made.append(None)
    return own(*arguments)
early_service.from_single = counted
with pgmo.optimize(device="cuda") as session:
    for at in range(3 * tuning.MOST_LESSONS):
        try:
            with session.iteration():
                for size in range(1, 9):
                    block = torch.empty(at * 1000 + size * 5000, device="cuda")
                if at % 2:
                    raise ValueError
        except ValueError:
            pass
print(json.dumps([len(made), tuning.MOST_LESSONS]))
"""
    made, most = run_program(code, PYTHONPATH=str(ROOT))
    assert 1 < made <= most
