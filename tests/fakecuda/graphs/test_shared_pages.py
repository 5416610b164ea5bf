"""Graphs of different pools share only the pages of blocks that they free."""

import pytest
import torch

from tests.fakecuda.pages.block_program import run

GRAPHS = """
from tests.fakecuda.graphs.figures import figures
def copied(tensor):
    return torch.empty_like(tensor).copy_(tensor)
def captured(mib, pool=None):
    graph, given = torch.cuda.CUDAGraph(), block(mib)
    with torch.cuda.graph(graph, pool=pool):
        result = copied(copied(copied(given)))
    return graph, given, result
def replayed(graph, given, result, value):
    given.copy_(torch.full(given.shape, value, dtype=torch.uint8))
    graph.replay()
def right(result, value):
    return bool((result.cpu() == value).all())
"""


def graphs(code: str, switch: str = "1", **environment: str) -> list:
    return run(GRAPHS + code, PGMO_GRAPHS=switch, **environment)


TWO = """
before = used()
all = [captured(32) for _ in range(2)]
for value, one in enumerate(all, 1): replayed(*one, value)
report(figures(), [right(one[2], value) for value, one in enumerate(all, 1)], used() - before)
"""


def test_nothing_is_shared_by_default():
    figures, right, taken = graphs(TWO, switch="0")
    assert figures["segments"] == 0
    assert right == [True, True]
    assert taken >= 2 * 3 * (32 << 20)


def test_temporaries_of_two_pools_have_the_same_pages():
    figures, right, taken = graphs(TWO)
    assert right == [True, True]
    # Two inputs, two results, and one temporary; the other temporary's memory holds a result.
    assert taken <= 5 * (32 << 20) + (4 << 20)
    assert figures["pages"] == 3 * (32 << 20)
    assert figures["segments"] == 4 * (32 << 20)


def test_pages_go_when_their_graphs_do():
    (figures,) = graphs("""
all = [captured(32) for _ in range(3)]
for one in all: replayed(*one, 1)
del all, one
torch.cuda.empty_cache()
report(figures())
""")
    assert figures["pages"] == figures["segments"] == 0


def test_a_result_outlives_its_graph():
    (values,) = graphs("""
graph, given, result = captured(8)
replayed(graph, given, result, 7)
graph.reset()
torch.cuda.empty_cache()
others = [captured(8) for _ in range(3)]
for one in others: replayed(*one, 9)
report([right(result, 7), *[right(one[2], 9) for one in others]])
""")
    assert values == [True] * 4


def test_statistics_count_a_shared_page_once():
    reserved, most, highest = graphs("""
all = [captured(16 + size) for size in range(0, 32, 8)]
for one in all: replayed(*one, 1)
report(torch.cuda.memory_reserved() - used(), torch.cuda.max_memory_reserved(), peak())
""")
    assert reserved == 0
    assert most == highest


CHAINS = """
def chain(mib):
    given, forward, backward = block(mib), torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(forward):
        kept = copied(given)
        result = copied(kept)
    with torch.cuda.graph(backward, pool=forward.pool()):
        gradient = copied(copied(kept))
        del kept
    return given, forward, backward, gradient
first, second = chain(16), chain(16)
"""


def test_a_backward_graph_finds_what_its_forward_graph_kept():
    """Two chains are open at the same time, so one of them moves to its own pages."""
    right, moves = graphs(
        CHAINS
        + """
for one, value in ((first, 3), (second, 4)):
    one[0].copy_(torch.full(one[0].shape, value, dtype=torch.uint8))
    one[1].replay()
second[2].replay()
first[2].replay()
report([right(first[3], 3), right(second[3], 4)], figures()["moves"])
"""
    )
    assert right == [True, True]
    assert moves > 0


def test_values_written_before_the_first_replay_survive():
    (right,) = graphs("""
first = captured(8)
replayed(*first, 1)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    temporary = copied(first[1])
    constant = torch.empty_like(first[1])
    result = copied(constant)
    del temporary
constant.copy_(torch.full(constant.shape, 5, dtype=torch.uint8))
replayed(*first, 1)
graph.replay()
report([right(constant, 5), right(result, 5), right(first[2], 1)])
""")
    assert right == [True] * 3


APART = """
one, other = captured(16), captured(16)
for graph in (one, other): replayed(*graph, 1)
shared = figures()
{body}
replayed(*one, 2)
report(shared, figures(), [right(one[2], 2), right(other[2], 1)])
"""


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            "other[0].raw_cuda_graph_exec()",
            marks=pytest.mark.skipif(
                not hasattr(torch.cuda.CUDAGraph, "raw_cuda_graph_exec"), reason="PyTorch is older"
            ),
            id="launched by its handle",
        ),
        pytest.param(
            "torch._C._cuda_beginAllocateToPool(0, other[0].pool())\n"
            "torch._C._cuda_endAllocateToPool(0, other[0].pool())",
            id="its pool is used elsewhere",
            marks=pytest.mark.skipif(
                not hasattr(torch._C, "_cuda_endAllocateToPool"), reason="PyTorch is older"
            ),
        ),
    ],
)
def test_a_graph_whose_launches_are_not_seen_shares_nothing(body):
    shared, now, right = graphs(APART.format(body=body))
    assert shared["pages"] < shared["segments"]
    assert now["pages"] == now["segments"]
    assert right == [True, True]


def test_graph_trees_are_left_to_pytorch():
    figures, trees = graphs("""
from torch import nn
from torch._inductor.cudagraph_trees import get_container
model = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)).cuda()
compiled = torch.compile(model, backend="cudagraphs")
for rows in (64, 128):
    for _ in range(4):
        torch.compiler.cudagraph_mark_step_begin()
        compiled(torch.empty(rows, 256, device="cuda")).square().mean().backward()
        model.zero_grad()
report(figures(), len(list(get_container(0).tree_manager.get_roots())))
""")
    assert figures["segments"] == 0
    assert trees > 0


def test_a_replay_that_needs_pages_fails_as_requests_do():
    error, right = graphs(
        CHAINS
        + """
first[0].copy_(torch.full(first[0].shape, 3, dtype=torch.uint8))
first[1].replay()
filler = block((torch.cuda.mem_get_info()[0] >> 20) - 1)
error = None
try:
    second[1].replay()
except torch.OutOfMemoryError as caught:
    error = str(caught)
first[2].replay()
del filler
second[0].copy_(torch.full(second[0].shape, 4, dtype=torch.uint8))
second[1].replay()
second[2].replay()
report(error, [right(first[3], 3), right(second[3], 4)])
""",
        FAKECUDA_BYTES=str(256 << 20),
    )
    assert "CUDA out of memory" in (error or "")
    assert right == [True, True]


SIDE_BY_SIDE = """
one, other = captured(16), captured(16)
replayed(*one, 1), replayed(*other, 2)
streams = [torch.cuda.Stream(), torch.cuda.Stream()]
def side_by_side():
    torch.cuda.synchronize()
    before = figures()["waits"]
    hold(streams[0])
    for chain, stream in zip((one, other), streams):
        with torch.cuda.stream(stream):
            chain[0].replay()
    pending = not streams[1].query()
    release(streams[0])
    return figures()["waits"] - before, pending
shared = side_by_side()
other[0].raw_cuda_graph_exec()
apart = side_by_side()
report(shared, apart, [right(one[2], 1), right(other[2], 2)])
"""


@pytest.mark.skipif(
    not hasattr(torch.cuda.CUDAGraph, "raw_cuda_graph_exec"), reason="PyTorch is older"
)
def test_graphs_on_two_streams_wait_for_each_other_unless_one_is_kept_apart():
    shared, apart, right = graphs(SIDE_BY_SIDE)
    assert shared == [1, True]
    assert apart == [0, False]
    assert right == [True, True]
