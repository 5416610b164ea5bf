"""Tests that equal blocks are traced once, with the same graph as if all of them were traced."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional

import pgmo
from pgmo.recompute.capture.repeated.template import NotAlikeError
from pgmo.recompute.compiled import blocks as repeated
from pgmo.recompute.compiled.graph import CompiledGraph
from tests.unit.recompute.steps import proposed, same, step

X = torch.linspace(-1, 1, 6 * 5 * 8).reshape(6, 5, 8)


class Attention(nn.Module):
    def __init__(self, scale=0.5):
        super().__init__()
        self.into, self.out, self.scale = nn.Linear(8, 24), nn.Linear(8, 8), scale

    def forward(self, x):
        q, k, v = self.into(x).chunk(3, -1)
        return self.out((q @ k.transpose(-1, -2) * self.scale).softmax(-1) @ v)


class Block(nn.Module):
    def __init__(self, dropout=0.1, scale=0.5):
        super().__init__()
        self.first, self.second = nn.LayerNorm(8), nn.LayerNorm(8)
        self.attention, self.dropout = Attention(scale), nn.Dropout(dropout)
        self.wide, self.narrow = nn.Linear(8, 32), nn.Linear(32, 8)

    def forward(self, x, shift=None):
        x = x + self.dropout(self.attention(self.first(x)))
        if shift is not None:
            x = x + shift
        return x + self.narrow(functional.gelu(self.wide(self.second(x))))


class Deep(nn.Module):
    def __init__(self, blocks):
        super().__init__()
        self.enter, self.layers, self.leave = (
            nn.Linear(8, 8),
            nn.ModuleList(blocks),
            nn.Linear(8, 3),
        )

    def forward(self, x):
        x = self.enter(x)
        for one in self.layers:
            x = one(x)
        return self.leave(x).square().mean()


class Skipping(Deep):
    """A model that reads results of blocks again at its end, which changes the order of sums."""

    def forward(self, x):
        x = self.enter(x)
        kept = []
        for one in self.layers:
            x = one(x)
            kept.append(x)
        return (self.leave(x) + self.leave(kept[0]) + self.leave(kept[2])).square().mean()


class Shared(Deep):
    """A model that gives all blocks a shift, which has a gradient."""

    def __init__(self, blocks):
        super().__init__(blocks)
        self.shift = nn.Parameter(torch.ones(8))

    def forward(self, x):
        x = self.enter(x)
        for one in self.layers:
            x = one(x, self.shift * 2)
        return self.leave(x).square().mean()


class Collecting(Block):
    """A block that appends an intermediate result to a list, which the model reads."""

    def forward(self, x, seen):
        x = super().forward(x)
        seen.append(x * 2)
        return x + 1


class Collected(Deep):
    def forward(self, x):
        seen = []
        x = self.enter(x)
        for one in self.layers:
            x = one(x, seen)
        return self.leave(x).square().mean() + torch.stack(seen).mean()


class Caching(Block):
    """A block that extends an empty cache and reads it, as layers of language models do."""

    def forward(self, x, seen):
        x = torch.cat([torch.tensor([]), x])
        seen.append(x)
        return super().forward(x)


class Viewing(Block):
    """A block that also leaves a view of a tensor that it leaves elsewhere."""

    def forward(self, x, seen):
        x = x * 2
        seen += [x, x.transpose(0, 1)]
        return super().forward(x)


class Cached(Deep):
    """A model that returns the caches next to its loss."""

    def forward(self, x):
        seen = []
        x = self.enter(x)
        for one in self.layers:
            x = one(x, seen)
        return self.leave(x).square().mean(), seen


class Broken(Deep):
    """A model whose head is a graph of its own."""

    def forward(self, x):
        x = self.enter(x)
        for one in self.layers:
            x = one(x)
        torch._dynamo.graph_break()
        return self.leave(x).square().mean()


class InPlace(Block):
    def forward(self, x):
        x.mul_(0.5)
        return super().forward(x)


def deep(kind=Deep, block=Block, count=4, **options):
    torch.manual_seed(0)
    return kind([block(**options) for _ in range(count)])


def captured(model, **options):
    """Return the model that recomputes, its plan, and the number of blocks that were not traced."""
    written, expand = [], repeated.expand
    errors, compiled = [], CompiledGraph._compiled

    def counting(joint):
        written.append(expand(joint))

    def recording(graph, *given):
        try:
            return compiled(graph, *given)
        except Exception as error:
            errors.append(error)
            raise

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(repeated, "expand", counting)
        patch.setattr(CompiledGraph, "_compiled", recording)
        made, plan = pgmo.recompute(model, X, measure=False, **options)
    assert [one for one in errors if not isinstance(one, NotAlikeError)] == []
    return made, plan, sum(written)


def traced(model, **options):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(repeated, "LEAST", 1000)
        return pgmo.recompute(model, X, measure=False, **options)


def check(model, count, budget=0.6):
    """Check that the graph is that of a full trace, and the bits those of the plain model."""
    plain = copy.deepcopy(model)
    options = {"budget": budget, "planner": proposed}  # a planner without a search
    _, expected = traced(copy.deepcopy(model), **options)
    made, plan, written = captured(model, **options)
    assert count is None or written == count
    assert plan.graph == expected.graph
    assert plan.recomputed == expected.recomputed
    assert same(step(made, X), step(plain, X))


def test_the_graph_is_that_of_all_blocks_traced():
    check(deep(count=3), 2)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Skipping, Shared])
def test_gradients_that_others_read_are_summed_in_the_same_order(kind):
    check(deep(kind), 0)


@pytest.mark.slow
def test_blocks_that_write_into_what_they_are_given_are_traced():
    check(deep(block=InPlace), 0)


@pytest.mark.slow
def test_blocks_may_leave_tensors_elsewhere():
    check(deep(Collected, Collecting), 3)


@pytest.mark.slow
def test_blocks_may_read_what_they_leave_elsewhere():
    check(deep(Collected, Caching), 3)


@pytest.mark.parametrize(
    ("block", "count"), [(Caching, 3), pytest.param(Viewing, 0, marks=pytest.mark.slow)]
)
def test_results_without_gradients_may_be_read_within_a_block(block, count):
    model = deep(Cached, block)
    plain = copy.deepcopy(model)
    made, _, written = captured(model, budget=0.6, planner=proposed)
    assert written == count
    found = []
    for one in (made, plain):
        torch.manual_seed(1)
        loss, seen = one(X)
        loss.backward()
        with torch.no_grad():
            seen[1].mul_(2)  # results may be changed in place
        found.append([loss, *seen, *(parameter.grad for parameter in one.parameters())])
    assert same(*found)


@pytest.mark.slow
def test_blocks_of_a_graph_without_a_backward_pass_are_all_traced():
    model = deep(Broken)
    model.enter.requires_grad_(False)
    model.layers.requires_grad_(False)
    plain = copy.deepcopy(model)
    made, _, written = captured(model, budget="min")
    assert written == 0
    assert same(step(made, X), step(plain, X))


@pytest.mark.slow
def test_a_block_that_reads_another_number_is_traced_by_itself():
    model = deep(count=7)
    model.layers[3].attention.scale = 0.25
    check(model, 5)


@pytest.mark.slow
def test_alternating_blocks_are_two_kinds():
    model = deep(count=8)
    for one in model.layers[::2]:
        one.attention.scale = 0.25
    check(model, 6)


@pytest.mark.slow
def test_frozen_blocks_are_another_kind():
    model = deep(count=8)
    for one in model.layers[:4]:
        one.requires_grad_(False)
    check(model, None)


@pytest.mark.slow
def test_blocks_may_be_shared():
    model = deep(count=5)
    model.layers[2] = model.layers[0]
    check(model, None)


@pytest.mark.slow
def test_autocast_is_that_of_the_call():
    model = deep(dropout=0.0)
    with torch.autocast("cpu", torch.bfloat16):
        check(model, 3)
