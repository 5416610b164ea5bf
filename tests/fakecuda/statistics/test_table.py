"""Each of PyTorch's statistics has its expected value while pgmo serves."""

from typing import Any

import pytest

from tests.fakecuda.pages.block_program import MIB
from tests.fakecuda.programs import run_program
from tests.fakecuda.statistics.table import SAME, TABLE, contradictions, falls

PROGRAM = """
import contextlib, json, os, torch
MIB = 1 << 20
mode = os.environ["PGMO_MODE"]
if mode != "plain":
    import pgmo
if mode == "plug-in":
    torch.cuda.memory.change_current_allocator(pgmo.torch_allocator())
torch.cuda.init()
if mode == "run":
    from pgmo.allocator.adapters.torch_cuda import serve_without_session
    serve_without_session()

def block(mib):
    return torch.empty(int(mib * MIB), dtype=torch.uint8, device="cuda")

readings = []
def read(what):
    stats = torch.cuda.memory_stats()
    if hasattr(torch.accelerator, "memory_stats"):
        assert torch.accelerator.memory_stats() == stats, what
    segments = torch.cuda.memory_snapshot()
    sums = [sum(one[key] for one in segments) for key in ("allocated_size", "total_size")]
    assert sums[0] == stats["allocated_bytes.all.current"], what
    assert sums[0] <= sums[1] <= stats["reserved_bytes.all.current"], what
    readings.append((what, stats))

def session():
    return contextlib.nullcontext() if mode == "plain" else pgmo.optimize(device="cuda")

def step(opened):
    return contextlib.nullcontext() if mode == "plain" else opened.iteration()

def pause(opened):
    return contextlib.nullcontext() if mode == "plain" else opened.pause()

def fail():
    try:
        block(10_000)
    except torch.OutOfMemoryError:
        return
    raise AssertionError("it fits")

def train(opened):
    for _ in range(8):
        with step(opened):
            a, b = block(20), block(5)
            del a
            c = block(30)
            del b, c

# The first reading initializes nothing: a device that was never used has no statistics.
before = [block(3), block(40)]
read("a model before the session")
with session() as opened:
    train(opened)
    read("training")
    inside = block(7)
    with pause(opened):
        block(100)
    read("a pause")
    fail()
    read("a failure in the session")
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        pooled = block(60)
    read("a pool")
    del pooled
    big = block(130)
    read("what was freed in a pool is not part of a peak")
    del big
    with torch.cuda.use_mem_pool(pool):
        fail()
    read("a failure in a pool")
read("the end of the session")
hits = opened.history[-1].hit_rate if mode != "plain" else 1
after = block(150)
read("after the session")
fail()
read("a failure after the session")
before.clear()
read("the model is gone")
again = block(170)
read("a new peak")
with session() as opened:
    train(opened)
read("a second session")
del again, after, inside
read("all is gone")
torch.cuda.reset_peak_memory_stats()
read("peaks are reset")
torch.cuda.reset_accumulated_memory_stats()
read("sums are reset")
with session() as opened:
    train(opened)
read("a session after the resets")
print(json.dumps([hits, readings]))
"""


def readings(mode: str) -> tuple[float, list[tuple[str, dict[str, Any]]]]:
    hits, all_of_them = run_program(PROGRAM, FAKECUDA_BYTES=str(1024 * MIB), PGMO_MODE=mode)
    return hits, all_of_them


@pytest.fixture(scope="module")
def plain():
    return readings("plain")[1]


@pytest.mark.parametrize("mode", ["session", "plug-in", "run"])
def test_statistics_are_those_of_plain_pytorch_and_fall_only_when_they_are_reset(plain, mode):
    hits, found = readings(mode)
    assert hits > 0.6
    same = [key for key in plain[0][1] if TABLE[key] == SAME]
    sums = True
    before = found[0][1]
    for (what, expected), (_, stats) in zip(plain, found, strict=True):
        sums = sums and what != "sums are reset"
        wrong = {key: (stats[key], expected[key]) for key in same if stats[key] != expected[key]}
        assert not wrong, what
        assert not contradictions(stats, sums=sums), what
        assert stats["reserved_bytes.all.peak"] <= 1024 * MIB
        assert set(stats) <= set(TABLE)
        assert "are reset" in what or not falls(before, stats), what
        before = stats


def test_statistics_agree_while_state_sleeps():
    """Sleeping pages are neither allocated nor reserved."""
    (rows,) = run_program(
        """
import json, pgmo, torch
rows = []
def read(asleep):
    rows.append((asleep, torch.cuda.memory_stats()))
with pgmo.optimize(device="cuda") as session:
    state = torch.zeros(64 << 20, dtype=torch.uint8, device="cuda")
    kept = torch.zeros(5 << 20, dtype=torch.uint8, device="cuda")
    read(False)
    session.release(state="host", of=state)
    read(True)
    other = torch.empty(80 << 20, dtype=torch.uint8, device="cuda")
    read(True)
    del other
    session.resume()
    read(False)
read(False)
print(json.dumps([rows]))
""",
        FAKECUDA_BYTES=str(128 * MIB),
    )
    levels = [stats["allocated_bytes.all.current"] // MIB for _, stats in rows]
    assert levels == [69, 5, 85, 69, 69]
    assert [stats["allocated_bytes.all.peak"] // MIB for _, stats in rows][2:] == [85, 85, 85]
    for at, (asleep, stats) in enumerate(rows):
        assert not contradictions(stats, asleep=asleep), at
        assert at == 0 or not falls(rows[at - 1][1], stats), at
