"""While a step is captured graphs are copied quickly, and PyTorch is as it was afterwards."""

import pytest

torch = pytest.importorskip("torch")

from torch import fx  # noqa: E402

from pgmo.recompute.capture.graphs import quick_copies  # noqa: E402


def negating():
    graph = fx.Graph()
    given = graph.placeholder("x")
    graph.output((graph.call_function(torch.add, (graph.call_function(torch.neg, (given,)), 2)),))
    return fx.GraphModule({}, graph)


def test_copies_are_the_same_and_pytorch_is_as_it_was():
    nested = getattr(fx.graph, "pytree", None)
    with quick_copies():
        module = negating()
    assert getattr(fx.graph, "pytree", None) is nested
    assert torch.equal(module(torch.ones(2))[0], torch.ones(2))
