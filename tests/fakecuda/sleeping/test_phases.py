"""Phases of a program that shares a card: the peak of each phase, and sleeping objects."""

import os

import pytest

from tests import forked
from tests.fakecuda.pages.block_program import MIB
from tests.fakecuda.programs import run_program
from tests.fakecuda.sleeping.phase_program import PARTS, run_parts

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
        for _ in range(tokens):  # each step makes a longer cache, as torch.cat does
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
    def phase(name, **options):
        return pgmo.phase(name, **options) if session else contextlib.nullcontext()

    for number, tokens in enumerate(lengths):
        with phase("rollout", asleep=[optimizer] if asleep else None):
            answers = rollout(tokens)
        with phase("training"):
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
    return run_program(code, **environment)


@pytest.fixture(scope="module")
def peaks():
    return run(True), run(True, asleep=True)


def test_phases_need_no_more_than_expandable_segments(peaks):
    plain = run(False, PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")
    assert peaks[0]["peak"] <= 1.005 * plain["peak"]


def test_state_that_sleeps_lowers_the_peak_by_its_size(peaks):
    awake, asleep = peaks
    assert awake["peak"] - asleep["peak"] >= awake["state"] - 4 * MIB
    assert asleep["kept"]
    assert asleep["pending"] == 0


def test_a_phase_without_a_mark_is_an_iteration(peaks):
    for one in peaks:
        assert one["iterations"] == 8 * 3


def test_the_card_never_holds_what_two_phases_leave_out():
    levels, kept = run_parts(
        """
step()
fill(states()), fill(reference.parameters()), fill(engine.parameters())
kept, levels = [], []
for _ in range(3):
    with pgmo.phase("rollout", asleep=[optimizer, reference]):
        levels.append([used(), peak(reset=True)])
        kept.append(has_values(list(engine.parameters())))
    with pgmo.phase("scoring", asleep=[optimizer, engine], drop=cache):
        levels.append([used(), peak(reset=True)])
        kept.append(has_values(list(reference.parameters())))
    with pgmo.phase("training", asleep=[reference, engine], drop=cache):
        levels.append([used(), peak(reset=True)])
        kept.append(has_values(states()))
with pgmo.phase("checkpoint"):
    kept.append(has_values(states()) and has_values(list(engine.parameters())))
report(levels, kept)
"""
    )
    assert all(kept)
    policy, reference, engine, state, cache = 64, 64, 64, 128, 80
    needed = [policy + engine + cache, policy + reference, policy + state]
    for round_levels in (levels[0:3], levels[3:6], levels[6:9]):
        for (used, _), bytes_ in zip(round_levels, needed, strict=True):
            assert used <= (bytes_ + 12) * MIB
    # A peak counts from the beginning of the previous phase, so it covers two phases.
    for at in range(1, len(levels)):
        larger = max(levels[at - 1][0], levels[at][0])
        assert levels[at][1] <= larger + 4 * MIB


def test_state_asleep_in_two_phases_is_copied_once():
    copied, woken = run_parts(
        """
from pgmo.allocator.sleeping import host_copy
made = []
original = host_copy.HostCopy.__init__
def count(self, *arguments):
    original(self, *arguments)
    made.append(self.size)
host_copy.HostCopy.__init__ = count
step()
fill(states())
for _ in range(3):
    with pgmo.phase("rollout", asleep=[optimizer]):
        pass
    with pgmo.phase("scoring", asleep=[optimizer]):
        pass
error = error_of(optimizer.step)
with pgmo.phase("training"):
    woken = has_values(states())
report([one // MIB for one in made], woken and "state of this AdamW sleeps" in error)
"""
    )
    assert copied == [128]
    assert woken


def test_a_phase_inside_another_returns_to_its_lists():
    inside, outside = run_parts(
        """
before = used()
with pgmo.phase("training", asleep=[reference, engine]):
    with pgmo.phase("evaluation", asleep=[reference]):
        inside = before - used()
    outside = before - used()
report(inside // MIB, outside // MIB)
"""
    )
    assert 60 <= inside <= 64
    assert 120 <= outside <= 128


def test_without_room_to_wake_the_phase_is_named_and_can_begin_later():
    error, kept = run_parts(
        """
step()
fill(states())
with pgmo.phase("rollout", asleep=[optimizer], drop=cache):
    pass
mine = torch.empty(320 << 20, dtype=torch.uint8, device="cuda")
def train():
    with pgmo.phase("training", drop=cache):
        pass
error = error_of(train)
del mine
train()
report(error, has_values(states()))
""",
        FAKECUDA_BYTES=str(600 * MIB),
    )
    assert error.startswith("phase 'training': the card has too little free memory to restore 128")
    assert kept


def test_a_phase_inside_a_pause_counts_no_iteration():
    kept, iterations = run_parts(
        """
step()
fill(states())
with pgmo.optimize() as session:
    session.step()
    with session.pause(), pgmo.phase("evaluation", asleep=[optimizer]):
        pass
    with pgmo.phase("training"):
        pass
    report(has_values(states()), len(session.history))
"""
    )
    assert kept
    assert iterations == 2


def test_a_session_that_ends_wakes_what_a_phase_has_put_to_sleep():
    kept, again = run_parts(
        """
with pgmo.optimize() as session:
    step()
    fill(states())
    with pgmo.phase("rollout", asleep=[optimizer]):
        pass
    session.step()
kept = has_values(states())
before = used()
with pgmo.phase("rollout", asleep=[optimizer]):
    report(kept, (before - used()) // MIB)
"""
    )
    assert kept
    assert 120 <= again <= 136


@pytest.mark.parametrize("installed", [True, False])
def test_state_sleeps_only_if_pgmo_is_the_allocator(installed):
    code = PARTS
    if not installed:
        code = code.replace(
            "torch.cuda.memory.change_current_allocator(pgmo.torch_allocator())", ""
        )
    code += """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    with pgmo.phase("training", asleep=[reference]) as alone:
        pass
    with pgmo.phase("rollout"):
        pass
    with pgmo.optimize() as session:
        for _ in range(2):
            with pgmo.phase("training", asleep=[reference, engine]) as released:
                session.step()
            with pgmo.phase("rollout"):
                session.step()
texts = [str(one.message) for one in caught]
report(alone.card // MIB, released.awake // MIB, texts)
"""
    card, awake, texts = run_program(code)
    assert (card >= 60) == installed
    assert (awake > 100) == (not installed)
    assert any("nothing sleeps in pgmo.phase()" in one for one in texts) == (not installed)
    stayed = "MiB that were to sleep in the phase 'training' stay on the card"
    assert any(stayed in one for one in texts) == (not installed)


UNCHANGED = """
import torch, pgmo
policy, reference = (torch.nn.Linear(2048, 2048, device="cuda") for _ in "12")
optimizer = torch.optim.AdamW(policy.parameters(), foreach=False)
for number in range(6):
    with pgmo.phase("rollout", asleep=[optimizer, reference]) as released, torch.no_grad():
        answers = policy(torch.zeros(256, 2048, device="cuda"))
    with pgmo.phase("training", asleep=[reference]):
        for _ in range(2):
            policy(answers).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
print(released.host >> 20)
"""


def test_under_pgmo_run_phases_need_no_session_of_their_own(tmp_path):
    script = tmp_path / "loop.py"
    script.write_text(UNCHANGED)
    command = ("-m", "pgmo", "run", "--no-tags", str(script))
    ended = forked.run_command(tmp_path, *command, environment=os.environ)
    assert ended.exit_code == 0, ended.errors
    assert 32 <= int(ended.output.split()[0]) <= 36  # the reference sleeps already
    assert " 17 iterations" in ended.errors  # the session opens in the first step
    assert "contradict" not in ended.errors
