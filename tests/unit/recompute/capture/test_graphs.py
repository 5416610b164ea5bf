"""Tests of the replaced copies of graphs during a capture, which are undone afterwards."""

import threading

import pytest
import torch
from torch import fx

from pgmo.recompute.capture.graphs import quick_copies


def negating():
    graph = fx.Graph()
    given = graph.placeholder("x")
    graph.output((graph.call_function(torch.add, (graph.call_function(torch.neg, (given,)), 2)),))
    return fx.GraphModule({}, graph)


def test_copies_are_the_same_and_pytorch_is_as_it_was():
    nested = fx.graph.pytree
    with quick_copies():
        module = negating()
    assert fx.graph.pytree is nested
    assert torch.equal(module(torch.ones(2))[0], torch.ones(2))


@pytest.mark.parametrize("last_in_first_out", [False, True])
def test_another_thread_that_traces_looks_through_all_arguments(last_in_first_out):
    nested = fx.graph.pytree
    entered, leave, left = threading.Event(), threading.Event(), threading.Event()

    def other():
        with quick_copies():
            entered.set()
            leave.wait(60)
        left.set()

    thread = threading.Thread(target=other)
    with quick_copies():
        assert list(fx.graph.pytree.tree_iter([1, (2,)])) == []
        thread.start()
        assert entered.wait(60)
        if last_in_first_out:
            leave.set()
            assert left.wait(60)
            assert list(fx.graph.pytree.tree_iter([1, (2,)])) == []
    assert list(fx.graph.pytree.tree_iter([1, (2,)])) == [1, 2]
    leave.set()
    thread.join()
    assert fx.graph.pytree is nested
