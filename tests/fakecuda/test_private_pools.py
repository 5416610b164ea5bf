"""Private pools in genuine snapshots: graphs, graphed callables, graph trees, a `MemPool`."""

import os

import pytest

from pgmo.profiler.importers.formats import read_file
from pgmo.report.findings.pools import find_private_pools
from tests import forked

MIB = 2**20
BEGIN = """
import sys, torch
from torch import nn
record, path = sys.argv[1] == "record", sys.argv[2]
def start():
    torch.cuda.memory._record_memory_history(stacks="python", max_entries=1_000_000)
if record:
    start()
def block(mib):
    return torch.empty(mib << 18, device="cuda")
"""
END = """
start()
kept = block(1)
torch.cuda.memory._dump_snapshot(path)
"""
GRAPHS = """
graphs = []
for mib in (64, 16, 32):
    graph, given = torch.cuda.CUDAGraph(), block(mib)
    with torch.cuda.graph(graph):
        wide = torch.cat([given, given])
        narrow = wide[: len(given)] + 1
        del wide
        output = narrow * 2
        del narrow
    graphs.append((graph, given, output))
    graph.replay()
"""
LAYERS = """
def conv(channels):
    return nn.Conv2d(channels, 64, 3, padding=1)
net = nn.Sequential(conv(3), nn.ReLU(), conv(64)).cuda()
class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = net
    def forward(self, x):
        return self.net(x)
pool = torch.cuda.graph_pool_handle() if {shared} else None
graphs = []
for side in (192, 160, 128, 96):
    given = torch.zeros(2, 3, side, side, device="cuda")
    graphs.append(torch.cuda.make_graphed_callables(Tied(), (given,), pool=pool))
    graphs[-1](given).sum().backward()
"""
TREES = """
net = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)).cuda()
compiled = torch.compile(net, backend="cudagraphs", dynamic=False)
with torch.no_grad():
    for _ in range(4):
        for rows in (2048, 1024):
            torch.compiler.cudagraph_mark_step_begin()
            result = compiled(torch.zeros(rows, 1024, device="cuda"))
"""
WEIGHTS = """
pool = torch.cuda.MemPool()
with torch.cuda.use_mem_pool(pool):
    weights = [block(32) for _ in range(4)]
    for number, weight in enumerate(weights):
        weights[number] = weight.half()
        del weight
"""


@pytest.fixture
def measured(tmp_path):
    """Return a function that runs a program, and returns its private pools."""

    def measure(program: str, record: bool = True):
        path, script = tmp_path / "a.pickle", tmp_path / "program.py"
        script.write_text(BEGIN + program + (END.replace("start()\n", "") if record else END))
        command = ("program.py", "record" if record else "late", str(path))
        ended = forked.run_command(tmp_path, *command, environment=os.environ)
        assert ended.exit_code == 0, ended.errors
        (own,) = read_file(path)
        return find_private_pools(own.trace)

    return measure


def test_graphs_with_a_pool_each(measured):
    pools = measured(GRAPHS)
    found = [(one.kind, one.captures, one.survivors, one.temporaries) for one in pools.pools]
    assert found == [
        ("graphs", 1, size * MIB, 2 * size * MIB) for size in (64, 32, 16)
    ]  # Three blocks of this size are reserved; the output reuses the memory of `wide`.
    assert pools.needed == (64 + 32 + 16 + 2 * 64) * MIB
    assert pools.interleaved is None
    assert pools.reserved > pools.needed


def test_without_a_recording_the_need_is_estimated_from_what_is_idle(measured):
    exact, about = measured(GRAPHS), measured(GRAPHS, record=False)
    assert [one.kind for one in about.pools] == ["graphs"] * 3
    assert not any(one.recorded for one in about.pools)
    assert (about.reserved, about.alive) == (exact.reserved, exact.alive)
    assert exact.needed <= about.needed < about.reserved
    assert "about" in about.sentence()


def test_graphed_callables_need_what_one_shared_pool_would_have_reserved(measured):
    # The largest graph is captured first, so PyTorch fits the others into its blocks.
    apart, shared = measured(LAYERS.format(shared=False)), measured(LAYERS.format(shared=True))
    assert [one.captures for one in apart.pools] == [2] * 4  # forward and backward
    assert len(shared.pools) == 1
    assert apart.alive == pytest.approx(shared.alive, rel=0.01)
    # The shared pool holds outputs of one graph among temporaries of another, and is a bit smaller.
    assert apart.needed == pytest.approx(shared.reserved, rel=0.1)
    assert apart.needed < 0.5 * apart.reserved
    assert apart.needed < apart.interleaved < apart.reserved


def test_trees_of_graphs_share_one_pool(measured):
    (one,) = measured(TREES).pools
    assert (one.kind, one.recorded) == ("graphs", True)
    assert one.captures >= 2
    assert one.survivors + one.temporaries <= one.reserved
    assert one.temporaries >= 64 * MIB  # 2048 rows of 4096 numbers, before and after GELU


def test_weights_that_are_converted_in_a_pool(measured):
    pools = measured(WEIGHTS)
    (one,) = pools.pools
    assert (one.kind, one.captures) == ("MemPool", 0)
    assert (one.alive, one.survivors) == (64 * MIB, 64 * MIB)
    assert (pools.needed, one.temporaries) == ((128 + 16) * MIB, (128 + 16 - 64) * MIB)
