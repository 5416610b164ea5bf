"""First runs, whose first iteration differs from later ones: pages serve until a plan does."""

import pytest

from tests.fakecuda.programs import run_program

BEGIN = """
import json, pgmo, torch
from torch import nn
from tests.fakecuda.control import driver_calls, violations
from pgmo.allocator import heuristics
# Plans serve, though they may take a page more than windows would.
heuristics.use(heuristics.Heuristics(price=0))
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
    return run_program(BEGIN + make + build + code + LOOP, **environment)


@pytest.mark.parametrize("name", PROGRAMS)
def test_any_first_iteration_ends_in_a_plan_that_moves_nothing(name):
    phases, hits, moved, wrong = run(PROGRAMS[name], PGMO_CHECK="1")
    assert wrong == 0
    assert phases[-6:] == ["replay"] * 6
    assert all(rate >= 0.99 for rate in hits[-6:])
    assert moved[-6:] == [0] * 6


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
