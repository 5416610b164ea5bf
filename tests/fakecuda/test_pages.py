"""PyTorch's requests served from pages: what it says of memory, and when pages change hands."""

from pathlib import Path

import pytest
import torch

from tests.fakecuda.programs import run_program

ROOT = Path(__file__).parents[2]
MIB = 1 << 20

newer = pytest.mark.skipif(
    not hasattr(getattr(torch, "accelerator", None), "memory_stats"), reason="PyTorch is older"
)

BEGIN = """
import json, os, pgmo, torch
from pgmo.rehearsal.control import driver_calls, hold, peak, release, used, violations
torch.cuda.memory.change_current_allocator(pgmo.torch_allocator())
MIB = 1 << 20
def block(mib):
    return torch.empty(int(mib * MIB), dtype=torch.uint8, device="cuda")
def tell(*what):
    print(json.dumps(what))
"""


def run(code: str, **environment: str) -> list:
    return run_program(BEGIN + code, PYTHONPATH=str(ROOT), **environment)


# --- what PyTorch says of memory ----------------------------------------------------------------


def test_statistics_count_pages():
    allocated, reserved, peak_allocated, peak_reserved, card, requests = run(
        """
first, second = block(10), block(20.3)
del first
stats = torch.cuda.memory_stats()
tell(torch.cuda.memory_allocated(), torch.cuda.memory_reserved(), torch.cuda.max_memory_allocated(),
     torch.cuda.max_memory_reserved(), used(), stats["allocation.all.current"])
"""
    )
    assert 20.3 * MIB <= allocated < 20.4 * MIB
    assert peak_allocated == pytest.approx(30.3 * MIB, abs=0.1 * MIB)
    assert reserved == peak_reserved == card
    assert 30.3 * MIB <= card <= 34 * MIB
    assert requests == 1


def test_peaks_begin_anew_when_they_are_reset():
    whole, after = run(
        """
big = block(64); del big
whole = torch.cuda.max_memory_allocated()
small = block(4)
torch.cuda.reset_peak_memory_stats()
tell(whole, torch.cuda.max_memory_allocated())
"""
    )
    assert (whole, after) == (64 * MIB, 4 * MIB)


def test_sums_begin_anew_when_they_are_reset():
    (counted,) = run(
        """
kept, gone = block(4), block(8)
torch.cuda.reset_accumulated_memory_stats()
def sums():
    stats = torch.cuda.memory_stats()
    return [stats[f"{name}.all.{what}"] for name in ("allocated_bytes", "allocation")
            for what in ("current", "allocated", "freed")]
counted = [sums()]
del gone
block(2)
tell([*counted, sums()])
"""
    )
    assert counted[0] == [12 * MIB, 0, 0, 2, 0, 0]
    assert counted[1] == [4 * MIB, 2 * MIB, 10 * MIB, 1, 1, 2]


@newer
@pytest.mark.parametrize("begin", ["", "pgmo.optimize(device='cuda').__enter__()"])
def test_any_accelerators_functions_know_of_pages(begin):
    before, after = run(
        f"""
{begin}
kept, gone = block(6), block(50)
del gone
before = torch.accelerator.memory_allocated(), torch.accelerator.memory_reserved()
torch.accelerator.empty_cache()
tell(before, (torch.accelerator.memory_reserved(), used()))
"""
    )
    assert before[0] == 6 * MIB
    assert before[1] >= 56 * MIB
    assert after == [6 * MIB, 6 * MIB]


@newer
def test_after_a_session_an_accelerators_functions_are_torchs():
    (allocated,) = run_program(
        """
import json, pgmo, torch
with pgmo.optimize(device="cuda"):
    inside = torch.empty(8 << 20, dtype=torch.uint8, device="cuda")
after = torch.empty(4 << 20, dtype=torch.uint8, device="cuda")
print(json.dumps([torch.accelerator.memory_allocated()]))
""",
        PYTHONPATH=str(ROOT),
    )
    assert allocated == 4 * MIB


@pytest.mark.parametrize("environment", [{}, {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}])
def test_whoever_switches_caching_off_is_served_by_the_driver(environment):
    held, back, again = run(
        f"""
torch.cuda.init()
if {not environment}:
    torch.cuda.caching_allocator_enable(False)
single = block(2)
held = used()
del single
back = used()
if {not environment}:
    torch.cuda.caching_allocator_enable(True)
kept = block(2)
tell(held, back, torch.cuda.memory_allocated())
""",
        **environment,
    )
    assert (held, back) == (2 * MIB, 0)
    assert again == (0 if environment else 2 * MIB)


@pytest.mark.parametrize("pages", [True, False])
def test_a_session_heeds_that_caching_was_off_before(pages):
    (held,) = run_program(
        f"""
import json, pgmo, torch
from pgmo.rehearsal import control
torch.cuda.init()
before = control.used()
torch.cuda.caching_allocator_enable(False)
with pgmo.optimize(device="cuda", pages={pages}) as session:
    for _ in range(6):
        with session.iteration():
            torch.empty(8 << 20, dtype=torch.uint8, device="cuda")
    print(json.dumps([control.used() - before]))
""",
        PYTHONPATH=str(ROOT),
    )
    assert held == 0


def test_emptying_the_cache_returns_what_idles():
    before, after, living = run(
        """
kept = block(6)
for size in (30, 50): block(size)
before = used()
torch.cuda.empty_cache()
tell(before, used(), torch.cuda.memory_allocated())
"""
    )
    assert before >= 56 * MIB
    assert living <= after <= 8 * MIB


@pytest.mark.parametrize(("pages", "warm"), [("0", "1"), ("1", "1"), ("1", "")])
def test_a_memory_fraction_is_kept(pages, warm):
    said, held = run(
        """
if os.environ["WARM"]: torch.empty(1, device="cuda")
torch.cuda.set_per_process_memory_fraction(0.25)
kept = [block(32) for _ in range(7)]
try:
    block(64)
    said = ""
except torch.OutOfMemoryError as error:
    said = str(error)
tell(said, used())
""",
        FAKECUDA_BYTES=str(1024 * MIB),
        PGMO_PAGES=pages,
        WARM=warm,
    )
    assert said.startswith("CUDA out of memory. Tried to allocate 64.00 MiB")
    assert held <= 256 * MIB


@newer
def test_a_fraction_is_one_for_pages_and_pools():
    said, served, held, fraction = run(
        """
torch.cuda.set_per_process_memory_fraction(0.25)
pool, spare = torch.cuda.MemPool(), torch.cuda.MemPool(use_on_oom=True)
with torch.cuda.use_mem_pool(pool):
    first = block(100)
with torch.cuda.use_mem_pool(spare):
    second = block(100)
at = second.data_ptr()
del second
said = []
for size in (100, 110):
    try:
        said.append(block(size).data_ptr() == at)
    except torch.OutOfMemoryError as error:
        said.append(str(error))
kept = block(40)  # pages
try:
    with torch.cuda.use_mem_pool(pool):
        block(60)
except torch.OutOfMemoryError:
    said.append("refused")
tell(said[1], (said[0], said[2]), used(), torch.cuda.get_per_process_memory_fraction())
""",
        FAKECUDA_BYTES=str(1024 * MIB),
    )
    assert said.startswith("CUDA out of memory. Tried to allocate 110.00 MiB")
    assert served == [True, "refused"]
    assert held <= 256 * MIB
    assert fraction == 0.25


def test_a_fraction_outlasts_a_session():
    fractions, served = run_program(
        """
import json, pgmo, torch
before = torch.empty(1, device="cuda")
torch.cuda.set_per_process_memory_fraction(0.5)
with pgmo.optimize(device="cuda"):
    kept = [torch.empty(100 << 20, dtype=torch.uint8, device="cuda") for _ in range(5)]
    try:
        torch.empty(100 << 20, device="cuda")
    except torch.OutOfMemoryError:
        pass
    inside = torch.cuda.get_per_process_memory_fraction()
del kept
after = torch.empty(500 << 20, dtype=torch.uint8, device="cuda")
print(json.dumps([(inside, torch.cuda.get_per_process_memory_fraction()), len(after) >> 20]))
""",
        PYTHONPATH=str(ROOT),
        FAKECUDA_BYTES=str(1024 * MIB),
    )
    assert fractions == [0.5, 0.5]
    assert served == 500


def test_a_fraction_does_not_outlast_the_pages_that_used_it_up():
    served, fraction = run_program(
        """
import json, pgmo, torch
torch.cuda.set_per_process_memory_fraction(0.5)
def block():
    return torch.empty(50 << 20, dtype=torch.uint8, device="cuda")
with pgmo.optimize(device="cuda"):
    raw = torch.cuda.caching_allocator_alloc(1 << 20)  # so that the adapter stays
    kept = []
    try:
        while True:
            kept.append(block())
    except torch.OutOfMemoryError:
        pass
    kept.clear()
kept = [block() for _ in range(9)]
print(json.dumps([len(kept), torch.cuda.get_per_process_memory_fraction()]))
""",
        PYTHONPATH=str(ROOT),
        FAKECUDA_BYTES=str(1024 * MIB),
    )
    assert served == 9
    assert fraction == 0.5


def test_a_fraction_leaves_the_current_device_alone():
    (devices,) = run_program(
        """
import json, pgmo, torch
torch.cuda.set_per_process_memory_fraction(0.5, 0)
torch.cuda.set_device(1)
devices = []
with pgmo.optimize(device="cuda:0"):
    kept = torch.empty(50 << 20, dtype=torch.uint8, device="cuda:0")
    with torch.cuda.use_mem_pool(torch.cuda.MemPool(), 0):
        devices.append(torch.cuda.current_device())
devices.append(torch.cuda.current_device())
print(json.dumps([devices]))
""",
        PYTHONPATH=str(ROOT),
        FAKECUDA_DEVICES="2",
    )
    assert devices == [1, 1]


def test_a_fraction_does_not_lift_the_limit_of_a_session():
    (held,) = run_program(
        """
import json, pgmo, torch
torch.cuda.init()
with pgmo.optimize(device="cuda", limit="100 MiB"):
    torch.cuda.set_per_process_memory_fraction(0.5)
    kept = []
    try:
        while len(kept) < 30:
            kept.append(torch.empty(10 << 20, dtype=torch.uint8, device="cuda"))
    except torch.OutOfMemoryError:
        pass
    print(json.dumps([len(kept)]))
""",
        PYTHONPATH=str(ROOT),
        FAKECUDA_BYTES=str(1024 * MIB),
    )
    assert held == 10


def test_a_full_card_is_told_in_torchs_words():
    said, again = run(
        """
kept = [block(100) for _ in range(9)]
try:
    block(200)
    said = ""
except torch.OutOfMemoryError as error:
    said = str(error)
del kept
tell(said, len(block(900)) // MIB)
""",
        FAKECUDA_BYTES=str(1024 * MIB),
    )
    assert said.startswith("CUDA out of memory. Tried to allocate 200.00 MiB. GPU 0 has a total")
    assert "pgmo: its pages hold 900.00 MiB, of which 900.00 MiB are in use." in said
    assert again == 900


def test_what_idles_in_torchs_own_cache_is_used_before_memory_runs_out():
    assert run(
        """
from pgmo.allocator.adapters.torch_cuda import adapter_library
pool = torch.cuda.MemPool()
with torch.cuda.use_mem_pool(pool):
    inside = block(600)
outside = used()
del inside, pool
tell(outside // MIB, len(block(900)) // MIB)
""",
        FAKECUDA_BYTES=str(1024 * MIB),
    ) == [600, 900]


# --- pages that change hands --------------------------------------------------------------------


def test_a_program_needs_as_much_as_lives_at_once():
    card, live = run(
        """
for turn in range(6):
    rows = [block(3 + (turn * 7 + at * 5) % 11) for at in range(12)]
    rows = rows[::2]
    rows += [block(17 - turn)]
    del rows
tell(peak(), torch.cuda.max_memory_allocated())
"""
    )
    assert card <= 1.03 * live + 4 * MIB


def test_a_whole_card_is_mapped_once():
    created, again, released, left = run(
        """
blocks = [block(1024) for _ in range(139)]
created = driver_calls(reset=True)["create"]
del blocks
blocks = [block(1536) for _ in range(92)]
again = sum(driver_calls(reset=True).values())
del blocks
torch.cuda.empty_cache()
tell(created, again, driver_calls()["release"], used())
""",
        FAKECUDA_BYTES=str(141 << 30),
    )
    assert 139 * 512 <= created <= 139 * 512 + 1  # and a page for the trial of a second address
    assert again == 0
    assert released == 139 * 512
    assert left == 0


def test_memory_that_is_still_in_use_is_not_unmapped_or_handed_over():
    broken, lent = run(
        """
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    first = block(64); first.fill_(1)
violations(reset=True)
hold(side)
with torch.cuda.stream(side):
    first.fill_(2)
del first                                # its work is pending
second = block(120); second.fill_(3)     # on the default stream, on a card of 128 MiB
broken = violations()
release(side)
tell(broken, driver_calls()["map"] > driver_calls()["create"])
""",
        FAKECUDA_BYTES=str(128 * MIB),
    )
    assert broken == 0
    assert lent


def test_a_recorded_stream_keeps_a_block_from_being_used_again():
    broken = run(
        """
side = torch.cuda.Stream()
first = block(64); first.fill_(1)
torch.cuda.synchronize()
violations(reset=True)
hold(side)
with torch.cuda.stream(side):
    first.fill_(2)
first.record_stream(side)
del first
others = [block(64) for _ in range(2)]
for other in others: other.fill_(3)
count = violations()
release(side)
tell(count)
""",
        FAKECUDA_BYTES=str(256 * MIB),
    )
    assert broken == [0]


def test_a_stream_goes_on_beside_one_that_uses_its_block():
    elsewhere, waited, again = run(
        """
side = torch.cuda.Stream()
block(8)  # so many pages have been used, and idle
torch.cuda.synchronize()
with torch.cuda.stream(side):
    first = block(1 / 4)
at = first.data_ptr()
hold(torch.cuda.current_stream())
first.fill_(1)
first.record_stream(torch.cuda.current_stream())
del first
with torch.cuda.stream(side):
    second = block(1 / 4)
    at_once = side.query()
torch.cuda.synchronize()
release(torch.cuda.current_stream())
with torch.cuda.stream(side):
    third = block(1 / 4)
tell(second.data_ptr() != at, not at_once, third.data_ptr() == at)
"""
    )
    assert elsewhere
    assert not waited
    assert again


def test_what_a_graph_uses_stays_where_it_is():
    same, value = run(
        """
static = torch.ones(1 << 20, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    out = torch.empty_like(static)
    out.copy_(static)
address = static.data_ptr()
del static
others = [block(3) for _ in range(4)]
torch.cuda.empty_cache()
from tests.fakecuda import driver
tell(driver.is_mapped(address), len(others))
"""
    )
    assert same
    assert value == 4


def test_a_child_of_a_fork_may_drop_what_it_inherits():
    assert run(
        """
kept = [block(3) for _ in range(4)]
child = os.fork()
if child == 0:
    del kept
    os._exit(0)
tell(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    ) == [0]


# --- where there are none -----------------------------------------------------------------------

SESSION = """
model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(4)]).cuda()
optimizer = torch.optim.AdamW(model.parameters())
with pgmo.optimize(device="cuda", **{options}) as session:
    for _ in range(10):
        model(torch.randn(64, 512, device="cuda")).sum().backward()
        optimizer.step(); optimizer.zero_grad(); session.step()
summary = session.summary()
tell(session.history[-1].hit_bytes_rate, summary.pages, sum(summary.driver_calls.values()))
"""


def test_a_plan_makes_no_calls_of_the_driver():
    hits, pages, calls = run(SESSION.format(options={}))
    assert hits == 1
    assert pages > 0
    assert calls == 0


@pytest.mark.parametrize(
    ("options", "environment"),
    [
        ({"pages": False}, {}),
        ({}, {"PGMO_PAGES": "0"}),
        ({}, {"FAKECUDA_NO_VMM": "1"}),
        ({}, {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}),
    ],
)
def test_an_arena_is_one_block_where_there_are_no_pages(options, environment):
    code = SESSION.format(options=options)
    if "PYTORCH_CUDA_ALLOC_CONF" in environment:
        environment = {**environment, "PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"}
    hits, pages, _ = run(code, **environment)
    assert hits == 1
    assert pages == 0


@pytest.mark.parametrize(("stale", "kept"), [("0", True), ("1", False)])
def test_pages_have_one_address_at_a_time_where_a_second_one_would_not_agree(stale, kept):
    code = """
from tests.fakecuda import driver
first = block(64); first.fill_(5)
address = first.data_ptr()
del first
side = torch.cuda.Stream()
with torch.cuda.stream(side):        # other addresses, and all pages of the first
    second = block(64); second.fill_(7)
tell([driver.is_mapped(address + at * MIB) for at in range(4, 60, 4)])
"""
    (mapped,) = run(code, FAKECUDA_STALE_ALIASES=stale, FAKECUDA_BYTES=str(64 * MIB + 4 * MIB))
    assert set(mapped) == {kept}


def test_a_limit_is_kept_and_said():
    said, held = run(
        """
with pgmo.optimize(device="cuda", limit="100 MiB") as session:
    kept = [block(30) for _ in range(3)]
    try:
        block(30)
        said = ""
    except torch.OutOfMemoryError as error:
        said = str(error)
    tell(said, used())
"""
    )
    assert said.startswith("CUDA out of memory. Tried to allocate 30.00 MiB")
    assert held <= 100 * MIB
