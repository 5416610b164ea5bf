"""Programs of many graphs need no more of the card under `pgmo run` than without pgmo."""

import pytest

from tests.fakecuda.pages.block_program import run
from tests.fakecuda.programs import ROOT, run_command

PROGRAM = "tests/fakecuda/graphs/graphed_programs.py"
LAYERS = ("layers", "--number", "6", "--width", "384", "--length", "128")


def peak(*arguments: str, prefix: tuple[str, ...] = (), **environment: str) -> int:
    """Run a program, and return the card's peak in MiB."""
    return run_command(ROOT, *prefix, PROGRAM, *arguments, **environment)


@pytest.fixture(scope="module")
def default_peak():
    return peak(*LAYERS)


def test_graphs_of_layers_need_no_more_under_pgmo_run(default_peak):
    prefix = ("-m", "pgmo", "run", "-q", "--no-tags")
    expandable_peak = peak(*LAYERS, PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")
    least = min(default_peak, expandable_peak)
    assert peak(*LAYERS, prefix=prefix, PGMO_GRAPHS="0") <= least


def test_graphs_of_layers_need_less_if_they_share_pages(default_peak):
    prefix = ("-m", "pgmo", "run", "-q")
    assert peak(*LAYERS, prefix=prefix, PGMO_GRAPHS="1") <= 0.95 * default_peak


CAPTURED = """
from contextlib import nullcontext
from pgmo.allocator.adapters.torch_cuda import torch_cuda
from pgmo.profiler.tagging.tags import Tagger
def captured(tagger):
    given = torch.ones(4 << 20, device="cuda", requires_grad=True)
    with tagger:
        result = given * 2 + given * 3
        for _ in range(2):
            (gradient,) = torch.autograd.grad(result.sum(), given, retain_graph=True)
        graph, loss = torch.cuda.CUDAGraph(), result.sum()
        del gradient
        with torch.cuda.graph(graph):
            (gradient,) = torch.autograd.grad(loss, given, retain_graph=True)
    segments = torch.cuda.memory_snapshot()
    pools = sum(one["total_size"] for one in segments if one["segment_pool_id"] != (0, 0))
    return pools
plain = captured(nullcontext())
torch.cuda.empty_cache()
report(plain, captured(Tagger(lambda number: None, torch_cuda(0).operators)))
"""


def test_a_capture_requests_as_much_with_tags_as_without():
    plain, pools = run(CAPTURED)
    assert pools == plain > 0
