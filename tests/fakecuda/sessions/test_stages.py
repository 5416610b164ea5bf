"""Rollouts and training in turns: the rollouts get what training leaves, and what sleeps."""

import pytest

from tests.fakecuda.pages.block_program import MIB, ROOT
from tests.fakecuda.programs import run_program

LOOP = """
import contextlib, json, os, pgmo, torch
from tests.fakecuda.control import peak, used, violations

if PAGES:
    torch.cuda.memory.change_current_allocator(pgmo.torch_allocator())
layers = torch.nn.ModuleList(torch.nn.Linear(1024, 1024, device="cuda") for _ in range(8))
optimizer = torch.optim.Adam(layers.parameters())
lengths = [24, 31, 28, 32, 25, 30, 32, 27]

def rollout(tokens):
    x, cache = torch.zeros(8192, 1024, device="cuda"), []
    with torch.no_grad():
        for _ in range(tokens):  # a cache that grows, as concatenation makes it
            cache = [torch.zeros(8192 + 256 * len(cache), 256, device="cuda"), *cache]
    return x

def train(x):
    for layer in layers:
        x = torch.relu(layer(x))
    x.sum().backward()
    optimizer.step()
    optimizer.zero_grad()

def states():
    return [t for state in optimizer.state.values() for t in state.values() if t.is_cuda]

def loop(session, asleep):
    def stage(name, **options):
        return session.stage(name, **options) if session else contextlib.nullcontext()

    for number, tokens in enumerate(lengths):
        with stage("rollout", asleep=[optimizer] if asleep and number else None):
            answers = rollout(tokens)
        with stage("training"):
            for _ in range(2):
                train(answers[:512])
                if session:
                    session.step()
        del answers
        if number == 0:
            for state in states():
                state.copy_(torch.full(state.shape, 3.0))

with pgmo.optimize() if PAGES else contextlib.nullcontext() as session:
    loop(session, ASLEEP)
    size = sum(state.nbytes for state in states())
    kept = all((state == 3).all().item() for state in (one.cpu() for one in states()))
    print(json.dumps({
        "peak": peak(), "state": size, "kept": kept, "pending": violations(kernels=False),
        "iterations": len(session.history) if session else 0,
    }))
"""


def run(pages, asleep=False, **environment):
    code = LOOP.replace("PAGES", str(pages)).replace("ASLEEP", str(asleep))
    return run_program(code, PYTHONPATH=str(ROOT), **environment)


@pytest.fixture(scope="module")
def peaks():
    return run(True), run(True, asleep=True)


def test_stages_need_no_more_than_expandable_segments(peaks):
    plain = run(False, PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")
    assert peaks[0]["peak"] <= 1.005 * plain["peak"]


def test_state_that_sleeps_lowers_the_peak_by_its_size(peaks):
    awake, asleep = peaks
    assert awake["peak"] - asleep["peak"] >= awake["state"] - 4 * MIB
    assert asleep["kept"]
    assert asleep["pending"] == 0


def test_a_stage_without_a_mark_is_an_iteration(peaks):
    for one in peaks:
        assert one["iterations"] == 8 * 3
