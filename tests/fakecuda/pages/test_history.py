"""PyTorch's snapshots and memory history show the blocks in pages and slots."""

import inspect

import pytest
import torch

from tests.fakecuda.programs import run_program

COMMON = """
import json, torch, pgmo

def empty(mebibytes):
    return torch.empty(mebibytes << 20, dtype=torch.uint8, device="cuda")

def blocks(snapshot):
    "Of all segments: what is asked for and where; nothing overlaps, and nothing is left out."
    found = []
    for segment in snapshot["segments"]:
        at = segment["address"]
        for block in segment["blocks"]:
            assert block["size"] > 0
            if block["state"] == "active_allocated":
                found.append([at, block["requested_size"], [f["name"] for f in block["frames"]]])
            at += block["size"]
        assert at == segment["address"] + segment["total_size"]
        assert segment["is_expandable"] or segment["total_size"] % (2 << 20) == 0
    return sorted(found)

def sizes(segments, what):
    return sum(segment[what] for segment in segments)
"""

SEGMENTS = """
torch.cuda.memory.change_current_allocator(pgmo.torch_allocator())
kept = [empty(3), empty(5), torch.empty(512, dtype=torch.uint8, device="cuda"), empty(1)]
del kept[1]
snapshot = torch.cuda.memory._snapshot()
print(json.dumps({
    "blocks": [[at, size] for at, size, _ in blocks(snapshot)],
    "expected": sorted([tensor.data_ptr(), tensor.numel()] for tensor in kept),
    "total": sizes(snapshot["segments"], "total_size") - torch.cuda.memory_reserved(),
    "live": sizes(snapshot["segments"], "allocated_size") - torch.cuda.memory_allocated(),
}))
"""

SLOTS = """
with pgmo.optimize(device="cuda") as session:
    for _ in range(8):
        inside = [empty(3), empty(2)]
        del inside
        session.step()
    first = empty(3)
    assert session.statistics["live_slot_bytes"] == 3 << 20
    snapshot = torch.cuda.memory._snapshot()
    found = [[at, size] for at, size, _ in blocks(snapshot)]
    print(json.dumps([found == [[first.data_ptr(), 3 << 20]],
        sizes(snapshot["segments"], "total_size") == torch.cuda.memory_reserved()]))
    del first
"""

HISTORY = """
torch.cuda.memory.change_current_allocator(pgmo.torch_allocator())
before = empty(1)
torch.cuda.memory._record_memory_history(stacks="python")

def somebody():
    return empty(7)

kept = somebody()
gone = empty(3)
address = gone.data_ptr()
del gone
snapshot = torch.cuda.memory._snapshot()
trace = snapshot["device_traces"][0]
events = [[e["action"], e["size"]] for e in trace if e["action"] != "snapshot"]
times = [e["time_us"] for e in trace]
owner = [names for at, size, names in blocks(snapshot) if at == kept.data_ptr()][0]
known = [names for at, size, names in blocks(snapshot) if at == before.data_ptr()][0]
torch.cuda.memory._record_memory_history(enabled=None)
del kept
after = torch.cuda.memory._snapshot()["device_traces"]
print(json.dumps({"events": events, "sorted": times == sorted(times), "owner": "somebody" in owner,
    "known": known, "stack": "somebody" in [f["name"] for f in trace[0]["frames"]],
    "after": sum(map(len, after))}))
"""

A_SHORT_ONE = """
torch.cuda.memory.change_current_allocator(pgmo.torch_allocator())
torch.cuda.memory._record_memory_history(max_entries=3)
for mebibytes in (1, 2, 3):
    block = empty(mebibytes)
trace = torch.cuda.memory._snapshot()["device_traces"][0]
print(json.dumps([[e["action"], e["size"] >> 20] for e in trace]))
"""


def test_runs_of_pages_are_segments():
    seen = run_program(COMMON + SEGMENTS)
    assert seen["blocks"] == seen["expected"]
    assert seen["total"] == seen["live"] == 0


def test_slots_are_blocks():
    assert run_program(COMMON + SLOTS) == [True, True]


def test_the_history_has_events_with_times_and_stacks():
    seen = run_program(COMMON + HISTORY)
    assert seen["events"] == [
        ["alloc", 7 << 20],
        ["alloc", 3 << 20],
        ["free_requested", 3 << 20],
        ["free_completed", 3 << 20],
    ]
    assert seen["sorted"]
    assert seen["owner"]
    assert seen["stack"]
    assert seen["known"] == []  # the block was requested before the history was recorded
    assert seen["after"] == 0


def test_no_more_entries_than_were_wished_for():
    assert run_program(COMMON + A_SHORT_ONE) == [
        ["alloc", 3],
        ["free_requested", 2],
        ["free_completed", 2],
    ]


@pytest.mark.parametrize("pool", [True, False])
def test_a_pools_snapshot_has_its_own_segments_alone(pool):
    if not inspect.signature(torch.cuda.memory_snapshot).parameters:
        pytest.skip(f"PyTorch {torch.__version__} does not say for which pool it asks")
    code = f"""
torch.cuda.memory.change_current_allocator(pgmo.torch_allocator())
outside = empty(3)
pool = torch.cuda.MemPool()
with torch.cuda.use_mem_pool(pool):
    inside = empty(5)
segments = pool.snapshot() if {pool} else torch.cuda.memory_snapshot()
print(json.dumps(sorted(s["allocated_size"] for s in segments)))
"""
    expected = [5 << 20] if pool else [3 << 20, 5 << 20]
    assert run_program(COMMON + code) == expected
