"""Only pools of graphs that do not share pages have expandable segments."""

import pytest

from tests.fakecuda.graphs.test_shared_pages import GRAPHS
from tests.fakecuda.pages.block_program import run

SEGMENTS = """
def settings():
    text = torch.cuda.memory._snapshot()["allocator_settings"]
    return text["PYTORCH_CUDA_ALLOC_CONF"], text["expandable_segments"]
def types():
    '''The types of the segments of all private pools.'''
    return sorted({
        one["segment_type"] + (" expandable" if one["is_expandable"] else "")
        for one in torch.cuda.memory_snapshot() if tuple(one["segment_pool_id"]) != (0, 0)
    })
"""
EXPANDABLE, PLAIN = ["large expandable"], ["large"]


def pools(code: str, switch: str = "0", **environment: str) -> list:
    return run(GRAPHS + SEGMENTS + code, PGMO_GRAPHS=switch, **environment)


ONE = """
before = settings()
one = captured(8)
replayed(*one, 7)
report(types(), right(one[2], 7), before, settings())
"""


def test_a_pool_of_a_graph_is_expandable_and_the_setting_is_off_afterwards():
    types, right, before, after = pools(ONE)
    assert (types, right) == (EXPANDABLE, True)
    assert before == after
    assert after[1] is False


def test_segments_of_other_pools_have_the_same_size_as_before():
    (sizes,) = pools(
        """
one = captured(8)
pool = torch.cuda.MemPool()
with torch.cuda.use_mem_pool(pool):
    kept = block(3)
report([(seg["total_size"] >> 20, seg["is_expandable"]) for seg in pool.snapshot()])
""",
        PGMO_POOLS="0",
    )
    assert sizes == [[20, False]]


def test_settings_of_the_program_stay():
    configuration = "garbage_collection_threshold:0.5,large_segment_size_mb:30"
    types, *all_settings = pools(
        """
def all_settings():
    text = torch.cuda.memory._snapshot()["allocator_settings"]
    return settings(), text["garbage_collection_threshold"], text["expandable_segments"]
before, graph = all_settings(), torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    kept, within = block(8), all_settings()
report(types(), before, within, all_settings())
""",
        PYTORCH_CUDA_ALLOC_CONF=configuration,
    )
    before, within, after = all_settings
    assert types == EXPANDABLE
    assert before == after == [[configuration, False], 0.5, False]
    assert within[1:] == [0.5, True]


@pytest.mark.parametrize(
    "environment",
    [
        {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:False"},
        {"RANK": "0", "WORLD_SIZE": "2"},
    ],
    ids=["setting", "processes"],
)
def test_the_program_decides_and_several_processes_have_plain_segments(environment):
    types, right, before, after = pools(ONE, **environment)
    assert (types, right) == (PLAIN, True)
    assert before == after


def test_a_setting_made_within_a_capture_stays():
    (types, after, on) = pools("""
graph, given = torch.cuda.CUDAGraph(), block(8)
with torch.cuda.graph(graph):
    result = copied(given)
    torch._C._accelerator_setAllocatorSettings("expandable_segments:True")
second = captured(8)
report(types(), settings()[0], settings()[1])
""")
    assert (types, after, on) == (EXPANDABLE, "expandable_segments:True", True)


def test_a_later_capture_into_the_pool_reuses_its_blocks():
    first, second = pools("""
pool = torch.cuda.graph_pool_handle()
one = captured(16, pool)
first = torch.cuda.memory_reserved()
two = captured(16, pool)
report(first, torch.cuda.memory_reserved())
""")
    # The second capture needs its input and result; its temporary reuses the first one's memory.
    assert second - first <= 2 * (16 << 20) + (12 << 20)


def test_a_memory_pool_of_the_program_keeps_its_segments():
    (types,) = pools("""
pool = torch.cuda.MemPool()
one = captured(8, pool.id)
report(types())
""")
    assert types == PLAIN


def test_address_space_bounds_the_number_of_expandable_pools():
    (found,) = pools(
        """
graphs = [captured(16), captured(32)]
report(sorted((seg["is_expandable"], seg["allocated_size"] >> 20)
            for seg in torch.cuda.memory_snapshot()
            if tuple(seg["segment_pool_id"]) != (0, 0) and seg["allocated_size"]))
""",
        FAKECUDA_BYTES=str(16 << 40),
    )
    assert found == [[False, 32], [True, 16]]


def test_pools_of_graph_trees_are_expandable():
    (types,) = pools("""
compiled = torch.compile(lambda x: (x + 1).cumsum(0), backend="cudagraphs")
with torch.no_grad():
    for _ in range(3):
        torch.compiler.cudagraph_mark_step_begin()
        compiled(torch.zeros(1 << 20, device="cuda"))
report(types())
""")
    assert "large expandable" in types
    assert "large" not in types


def test_graphs_that_share_pages_have_no_expandable_segments():
    (types, *_) = pools(ONE, switch="1")
    assert types == PLAIN
