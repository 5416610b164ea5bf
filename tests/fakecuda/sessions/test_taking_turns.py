"""Several sessions on one device: the session that has the turn has the arena's pages."""

import pytest

from tests.fakecuda.programs import run_program

TRAININGS = """
import contextlib, json, threading, pgmo, torch
from tests.fakecuda.control import driver_calls, peak, used, violations
torch.cuda.memory.change_current_allocator(pgmo.torch_allocator())
from pgmo.allocator import heuristics
from workloads import Shape, create

# Else so small a program waits for room beside its weights.
heuristics.use(heuristics.Heuristics(price=0))
BATCHES = (16, 8, 12, 4)
def build(count):
    return [create("gpt", Shape(batch=batch, small=True)) for batch in BATCHES[:count]]

def train(training):
    training.step(128)
    training.optimize.zero_grad()

def rates(session):
    return [one.planned_bytes_rate for one in session.history[-3:]]
"""

IN_TURNS = (
    TRAININGS
    + """
trainings = build(COUNT)
with contextlib.ExitStack() as stack:
    sessions = [stack.enter_context(pgmo.optimize(device="cuda")) for _ in trainings]

    def iterate(at):
        with sessions[at].iteration():
            train(trainings[at])

    if THREADS:
        loops = [
            threading.Thread(target=lambda at=at: [iterate(at) for _ in range(12)])
            for at in range(COUNT)
        ]
        for one in loops:
            one.start()
        for one in loops:
            one.join()
    else:
        for iteration in range(12):
            if iteration == 10:
                driver_calls(reset=True)
            for at in range(COUNT):
                iterate(at)
    calls = sum(driver_calls().values())
    persistent = torch.cuda.memory_allocated()
    arenas = [session.plan.arena for session in sessions]
    print(json.dumps({
        "peak": peak(), "persistent": persistent, "arenas": arenas, "calls": calls,
        "iterations": [len(session.history) for session in sessions],
        "rates": [rate for session in sessions for rate in rates(session)],
        "violations": violations(kernels=False),
    }))
"""
)


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("threads", [False, True])
def test_trainings_need_what_persists_and_the_largest_arena(count, threads):
    code = IN_TURNS.replace("COUNT", str(count)).replace("THREADS", str(threads))
    found = run_program(code, PGMO_CHECK="1")
    pages = 2 * 2**20 * count  # each thread has its own workspaces
    assert found["peak"] <= 1.02 * (found["persistent"] + max(found["arenas"])) + pages
    assert found["peak"] < found["persistent"] + sum(found["arenas"])
    assert found["iterations"] == [12] * count
    assert min(found["rates"]) >= 0.999
    assert found["violations"] == 0
    if not threads:
        assert found["calls"] == 0


STEPS = (
    TRAININGS
    + """
trainings = build(2)
ended, opened = [], threading.Barrier(2)
def loop(at):
    train(trainings[at])
    with pgmo.optimize(device="cuda") as session:
        opened.wait()  # the first iterations mingle, as no session has the turn yet
        for _ in range(24):
            train(trainings[at])
            session.step()
        ended.append([len(session.history), [one.planned_bytes_rate for one in session.history]])

loops = [threading.Thread(target=loop, args=(at,)) for at in range(2)]
for one in loops:
    one.start()
for one in loops:
    one.join()
print(json.dumps(ended))
"""
)


def test_threads_with_steps_take_turns_as_well():
    ended = run_program(STEPS, PGMO_CHECK="1")
    assert len(ended) == 2
    for iterations, rates in ended:
        assert iterations >= 23
        assert max(rates[-3:]) >= 0.9, rates


CLOSED = (
    TRAININGS
    + """
trainings = build(2)
with pgmo.optimize(device="cuda") as first:
    for _ in range(8):
        train(trainings[0])
        first.step()
    kept = torch.zeros(1 << 20, device="cuda")
    with pgmo.optimize(device="cuda") as second:
        for _ in range(8):
            with second.iteration():
                train(trainings[1])
            with first.iteration():
                train(trainings[0])
        inner = rates(second) + rates(first)
    for _ in range(3):
        with first.iteration():
            train(trainings[0])
    outer = rates(first)
train(trainings[1])
with pgmo.optimize(device="cuda") as third:
    for _ in range(8):
        train(trainings[1])
        third.step()
    alone = rates(third)
print(json.dumps([inner, outer, alone, kept.sum().item() == 0, violations(kernels=False)]))
"""
)


def test_a_session_may_open_and_close_beside_another():
    inner, outer, alone, kept, pending = run_program(CLOSED, PGMO_CHECK="1")
    assert min(inner) >= 0.999
    assert min(outer) >= 0.999
    assert min(alone) >= 0.999
    assert kept
    assert pending == 0
