"""PyTorch's guarantees for a `torch.cuda.MemPool` hold if pgmo serves it from pages."""

import pytest

from tests.fakecuda.pages.block_program import PLAIN, run
from tests.fakecuda.private_pools.pool_programs import PROGRAMS

POOL = """
from torch.cuda import MemPool, use_mem_pool
def mib(pool):
    segments = pool.snapshot()
    assert all(one["segment_pool_id"] == pool.id for one in segments)
    return sum(one["total_size"] for one in segments) // MIB
def register(pool):
    from torch._C._distributed_c10d import ProcessGroupNCCL
    try:
        ProcessGroupNCCL.register_mem_pool(None, pool)
    except TypeError:
        pass
"""


def run_pools(code: str, **environment: str) -> list:
    """Run code that uses pools, and return the values that it reports."""
    return run(POOL + code, **environment)


def run_without_pages(code: str) -> list:
    """Run code that uses pools without pages before a session; return the values it reports."""
    return run(POOL + code, begin=PLAIN)


def test_a_live_pool_and_other_blocks_share_idle_pages():
    code = """
pool = MemPool()
with use_mem_pool(pool):
    weight, kept = block(64), block(2)
del weight
outside = block(64)
before = peak()
del outside
with use_mem_pool(pool):
    weight = block(64)
report(before // MIB, peak() // MIB)
"""
    assert run_pools(code) == [66, 66]


def test_a_pool_gets_idle_pages_before_it_fails():
    # pytorch#159674: by default the second request is an out-of-memory error.
    code = """
cached = block(192)
del cached
pool = MemPool()
with use_mem_pool(pool):
    weight = block(160)
report(weight.numel() // MIB)
"""
    assert run_pools(code, FAKECUDA_BYTES=str(256 << 20)) == [160]


def test_a_pool_of_another_allocator_gets_the_cards_memory_before_it_fails(tmp_path):
    code = """
from torch.cuda.memory import CUDAPluggableAllocator
import ctypes
stub = os.environ["PGMO_FAKECUDA"]
source = {source!r}
open(source, "w").write('''
extern "C" int cudaMalloc(void**, unsigned long);
extern "C" int cudaFree(void*);
extern "C" void* take(long bytes, int, void*) {{
  void* block = nullptr;
  return cudaMalloc(&block, static_cast<unsigned long>(bytes)) == 0 ? block : nullptr;
}}
extern "C" void give(void* block, long, int, void*) {{ (void)cudaFree(block); }}
''')
import subprocess
subprocess.run(["g++", "-shared", "-fPIC", "-o", source + ".so", source], check=True)
own = CUDAPluggableAllocator(source + ".so", "take", "give")
cached = block(192)
del cached
pool = MemPool(own.allocator())
with use_mem_pool(pool):
    weight = block(160)
report(mib(pool), [one["is_expandable"] for one in pool.snapshot()])
"""
    source = str(tmp_path / "own.cpp")
    assert run_pools(code.format(source=source), FAKECUDA_BYTES=str(256 << 20)) == [160, [False]]


def test_snapshots_and_statistics_have_the_pool():
    code = """
pool, other = MemPool(), MemPool()
with use_mem_pool(pool):
    a = block(8)
    with use_mem_pool(other):
        b = block(4)
    c = block(2)
d = block(16)
everything = [one["segment_pool_id"] for one in torch.cuda.memory_snapshot()]
report(mib(pool), mib(other), torch.cuda.memory_allocated() // MIB,
     torch.cuda.memory_reserved() // MIB, pool.id in everything, (0, 0) in everything)
"""
    assert run_pools(code) == [10, 4, 30, 30, True, True]


def test_the_last_user_of_a_pool_frees_its_memory():
    code = """
pool = MemPool()
with use_mem_pool(pool):
    a = block(8)
    counted = pool.use_count()
del a
idle = used() // MIB
b = block(4)
after = pool.use_count()
del pool
report(counted, after, idle, used() // MIB)
"""
    assert run_pools(code) == [2, 1, 8, 4]


def test_blocks_outlive_their_pool():
    code = """
pool = MemPool()
with use_mem_pool(pool):
    a = torch.full((2 * MIB,), 7, dtype=torch.uint8).cuda()
del pool
pool = MemPool()
with use_mem_pool(pool):
    b = torch.full((2 * MIB,), 9, dtype=torch.uint8).cuda()
report(a.cpu().unique().tolist(), b.cpu().unique().tolist(), mib(pool))
"""
    assert run_pools(code, FAKECUDA_COPY_LIMIT=str(4 << 20)) == [[7], [9], 2]


def test_one_pool_cannot_be_active_twice():
    code = """
pool = MemPool()
with use_mem_pool(pool):
    try:
        with use_mem_pool(pool):
            pass
    except RuntimeError as error:
        text = str(error)
    a = block(2)
report("already recording to mempool_id" in text, mib(pool))
"""
    assert run_pools(code) == [True, 2]


def test_only_the_thread_that_uses_a_pool_allocates_there():
    code = """
import threading
pool, kept = MemPool(), []
with use_mem_pool(pool):
    kept.append(block(2))
    thread = threading.Thread(target=lambda: kept.append(block(8)))
    thread.start()
    thread.join()
    kept.append(block(4))
report(mib(pool))
"""
    assert run_pools(code) == [6]


def test_pytorch_serves_captures_into_and_within_a_pool():
    code = """
pool = MemPool()
with use_mem_pool(pool):
    given = torch.zeros(2 * MIB, dtype=torch.uint8, device="cuda")
into, within = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
with torch.cuda.graph(into, pool=pool.id):
    result = given.clone()
with torch.cuda.graph(within), use_mem_pool(pool):
    other = given.clone()
pages = [one["is_expandable"] for one in pool.snapshot()]
given.copy_(torch.full((2 * MIB,), 5, dtype=torch.uint8))
into.replay()
within.replay()
report(result.cpu().unique().tolist(), other.cpu().unique().tolist(), sorted(set(pages)))
"""
    environment = {"FAKECUDA_COPY_LIMIT": str(4 << 20)}
    assert run_pools(code, **environment) == [[5], [5], [False, True]]


LEFT_ALONE = """
pool = {create}
{before}
with use_mem_pool(pool):
    a = block(32)
report([one["is_expandable"] for one in pool.snapshot()])
"""


@pytest.mark.parametrize(
    ("create", "before", "environment"),
    [
        ("MemPool(no_split=True)", "", {}),
        ("MemPool()", "", {"PGMO_POOLS": "0"}),
        ("MemPool()", "register(pool)", {}),
    ],
)
def test_pools_that_pytorch_serves(create, before, environment):
    code = LEFT_ALONE.format(create=create, before=before)
    assert run_pools(code, **environment) == [[False]]


def test_a_pool_with_use_on_oom_is_served():
    code = LEFT_ALONE.format(create="MemPool(use_on_oom=True)", before="")
    assert run_pools(code) == [[True]]


def test_an_error_in_a_pool_counts_its_pages():
    code = """
pool = MemPool()
with use_mem_pool(pool):
    a = block(128)
    try:
        block(256)
    except torch.OutOfMemoryError as error:
        text = str(error)
    b = block(64)
report("128.00 MiB is allocated by PyTorch" in text, mib(pool))
"""
    assert run_pools(code, FAKECUDA_BYTES=str(256 << 20)) == [True, 192]


def test_sessions_neither_record_nor_plan_blocks_in_pools():
    code = """
pool = MemPool()
with pgmo.optimize(device="cuda", tags=False) as session:
    for _ in range(12):
        with use_mem_pool(pool):
            a = block(8)
        b = block(4)
        del a, b
        session.step()
    now = session.statistics
report(now["hits"] > 0, session.plan.arena // MIB)
"""
    assert run_pools(code) == [True, 4]


def test_a_pool_is_pytorchs_after_the_session_that_served_it():
    code = """
with pgmo.optimize(device="cuda", tags=False) as session:
    pool = MemPool()
    with use_mem_pool(pool):
        a = block(32)
    session.step()
with use_mem_pool(pool):
    b = block(64)
c = block(128)
pages = [one["is_expandable"] for one in pool.snapshot()]
uses = pool.use_count()
report(mib(pool), sorted(pages), uses)
"""
    assert run_without_pages(code) == [96, [False, True], 1]


def test_a_session_that_ends_while_a_pool_is_active_leaves_the_pool_active():
    code = """
with pgmo.optimize(device="cuda", tags=False) as session:
    pool = MemPool()
    using = use_mem_pool(pool)
    using.__enter__()
    a = block(32)
    session.step()
b = block(64)
uses = [pool.use_count()]
using.__exit__(None, None, None)
c = block(128)
uses.append(pool.use_count())
with pgmo.optimize(device="cuda", tags=False) as session:
    with use_mem_pool(pool):
        d = block(16)
    session.step()
pages = [one["is_expandable"] for one in pool.snapshot()]
report(mib(pool), sorted(pages), uses, pool.use_count())
"""
    assert run_without_pages(code) == [112, [False, True], [2, 1], 1]


def test_a_pool_is_served_again_once_blocks_are_cached_again():
    code = """
pool = MemPool()
with use_mem_pool(pool):
    a = block(32)
    torch.cuda.caching_allocator_enable(False)
    b = block(64)
    torch.cuda.caching_allocator_enable(True)
    c = block(16)
uses = pool.use_count()
report(mib(pool), uses)
"""
    assert run_pools(code) == [48, 1]


def test_a_pool_that_was_registered_while_it_is_active_cannot_be_active_twice():
    code = """
pool, text = MemPool(), ""
with use_mem_pool(pool):
    register(pool)
    try:
        with use_mem_pool(pool):
            pass
    except RuntimeError as error:
        text = str(error)
report("already recording to mempool_id" in text, pool.use_count())
"""
    assert run_pools(code) == [True, 1]


def test_registering_pools_with_tensors_in_pages_warns_once():
    code = """
import warnings
def warnings_of(pool):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        register(pool)
    return ["NCCL cannot register" in str(one.message) for one in seen]
empty, first, second = MemPool(), MemPool(), MemPool()
with use_mem_pool(empty):
    gone = block(2)
del gone
with use_mem_pool(first):
    a = block(2)
with use_mem_pool(second):
    b = block(2)
report(warnings_of(empty), warnings_of(first), warnings_of(second))
"""
    assert run_pools(code) == [[], [True], []]


def test_a_pool_that_is_registered_while_it_is_active_is_pytorchs_from_then_on():
    code = """
pool = MemPool()
with use_mem_pool(pool):
    a = block(32)
    register(pool)
    b = block(64)
c = block(128)
report(mib(pool), [one["is_expandable"] for one in pool.snapshot()], pool.use_count())
"""
    assert run_pools(code) == [64, [False], 1]


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_need_no_more_than_by_default(program):
    code = f"""
from tests.fakecuda.private_pools.pool_programs import PROGRAMS
number, function = PROGRAMS[{program!r}]
function(6)
report(peak() // MIB)
"""
    (served,) = run_pools(code)
    (by_default,) = run_pools(code, PGMO_POOLS="0")
    assert served <= (0.9 if program != "layerwise" else 1.0) * by_default


def test_the_cache_is_not_emptied_while_a_pool_is_active():
    code = """
pool = MemPool()
with use_mem_pool(pool):
    a = block(8)
    del a
    torch.cuda.empty_cache()
    within = used() // MIB
torch.cuda.empty_cache()
report(within, used() // MIB)
"""
    assert run_pools(code) == [8, 0]
