"""Tests that facts about a node are computed once for its copies, and again after a change."""

import torch
from torch import fx

from pgmo.recompute.capture.memory_use.facts import (
    forget_facts,
    once_for_copies,
    share_facts,
)


def test_copies_share_facts_until_one_changes():
    asked = []

    @once_for_copies
    def length(node):
        asked.append(node.name)
        return len(str(node.target))

    graph = fx.Graph()
    one = graph.call_function(torch.neg, (graph.placeholder("x"),))
    assert [length(one), length(one)] == [len(str(torch.neg))] * 2
    assert asked == ["neg", "neg"]  # a node without shared facts has no cache
    share_facts(graph.nodes)
    copy = graph.node_copy(one)
    assert length(copy) == length(one)
    assert asked == ["neg", "neg", copy.name]
    copy.target = torch.sigmoid
    forget_facts(copy)
    assert length(copy) == len(str(torch.sigmoid))
    assert length(one) == len(str(torch.neg))
