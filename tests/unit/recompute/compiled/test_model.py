import copy
import gc
import re
import warnings
import weakref
from unittest.mock import patch

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import pgmo  # noqa: E402
from pgmo.recompute.capture.memory_use.meter import meter  # noqa: E402
from pgmo.recompute.compiled import blocks  # noqa: E402
from pgmo.recompute.compiled.model import CompiledModel  # noqa: E402
from pgmo.recompute.planners.budget import parse_budget  # noqa: E402
from pgmo.recompute.runtime.decide import Settings  # noqa: E402
from pgmo.recompute.runtime.twin import twin  # noqa: E402
from pgmo.units import format_bytes  # noqa: E402
from tests.unit.recompute.steps import same, step  # noqa: E402

WIDTH = 16


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.widen, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.dropout = nn.Dropout(0.25)

    def forward(self, x):
        return x + self.dropout(self.narrow(functional.gelu(self.widen(self.norm(x)))))


class Blocks(nn.Module):
    """A model of equal blocks, with a buffer that it writes and a second result."""

    def __init__(self, depth=4):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(depth))
        self.norm = nn.BatchNorm1d(WIDTH)

    def between(self, x):
        return x

    def forward(self, x):
        for block in self.blocks:
            x = self.between(block(x))
        hidden = self.norm(x)
        return hidden.square().mean(), hidden


class Broken(Blocks):
    """A model with a graph break after each block."""

    def between(self, x):
        torch._dynamo.graph_break()
        return x


def recomputed(model, budget, *inputs):
    compiled = CompiledModel(model, Settings(parse_budget(budget)))
    planned = compiled.capture(*inputs)
    return twin(model, compiled, lambda other: other), planned


def peak(model, x):
    model.zero_grad(set_to_none=True)
    with meter(torch.device("cpu")) as measured:
        results = model(x)
        results[0].backward()
    return measured.peak


@pytest.fixture(params=[Blocks, Broken])
def pair(request):
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = request.param()
    return copy.deepcopy(model), model


@pytest.mark.parametrize("budget", ["min", 0.7, 1.0])
def test_steps_have_the_bits_of_the_plain_model(pair, budget):
    plain, model = pair
    x = torch.randn(32, WIDTH)
    ours, _ = recomputed(model, budget, x)
    for seed in range(2):
        assert same(step(ours, x, seed=seed), step(plain, x, seed=seed))


@pytest.mark.parametrize("budget", ["min", 0.7])
def test_all_graphs_of_a_step_keep_to_one_budget(pair, budget):
    _, model = pair
    x = torch.randn(256, WIDTH)
    ours, planned = recomputed(model, budget, x)
    step(ours, x)
    assert peak(ours, x) == pytest.approx(planned.planned.schedule.peak, rel=0.01)


def test_a_graph_break_does_not_change_the_peak_without_recomputation(pair):
    plain, model = pair
    x = torch.randn(256, WIDTH)
    _, planned = recomputed(model, "min", x)
    assert peak(plain, x) == pytest.approx(planned.planned.default.peak, rel=0.01)


def test_another_batch_size_is_planned_when_it_comes(pair):
    plain, model = pair
    ours, _ = recomputed(model, "min", torch.randn(32, WIDTH))
    x = torch.randn(48, WIDTH)
    assert same(step(ours, x), step(plain, x))


def test_the_mode_may_change(pair):
    plain, model = pair
    x = torch.randn(32, WIDTH)
    ours, _ = recomputed(model, "min", x)
    for one in (plain, ours):
        one.eval()
    assert same(step(ours, x), step(plain, x))


def test_backward_passes_may_run_in_another_order_than_forward_passes(pair):
    plain, model = pair
    x, y = torch.randn(32, WIDTH), torch.randn(32, WIDTH)
    ours, _ = recomputed(model, "min", x)
    for one in (plain, ours):
        torch.manual_seed(0)
        first, second = one(x)[0], one(y)[0]
        first.backward()
        second.backward()
    for one, two in zip(plain.parameters(), ours.parameters(), strict=True):
        assert torch.equal(one.grad, two.grad)


def test_a_graph_may_be_retained(pair):
    plain, model = pair
    x = torch.randn(32, WIDTH)
    ours, _ = recomputed(model, "min", x)
    for one in (plain, ours):
        torch.manual_seed(0)
        loss = one(x)[0]
        loss.backward(retain_graph=True)
        loss.backward()
    for one, two in zip(plain.parameters(), ours.parameters(), strict=True):
        assert torch.equal(one.grad, two.grad)


def test_without_gradients_the_model_runs_as_it_is(pair):
    plain, model = pair
    x = torch.randn(32, WIDTH)
    ours, _ = recomputed(model, "min", x)
    with torch.no_grad():
        torch.manual_seed(0)
        expected = plain(x)[0]
        torch.manual_seed(0)
        assert torch.equal(ours(x)[0], expected)


def test_nothing_stays_of_the_capture(pair):
    plain, model = pair
    torch.manual_seed(1)
    recomputed(model, "min", torch.randn(32, WIDTH))
    after = torch.rand(1)
    torch.manual_seed(1)
    torch.randn(32, WIDTH)
    assert torch.equal(torch.rand(1), after)
    assert all(one.grad is None for one in model.parameters())
    for one, two in zip(plain.buffers(), model.buffers(), strict=True):
        assert torch.equal(one, two)


def test_a_budget_that_cannot_be_met_is_refused(pair):
    _, model = pair
    with pytest.raises(pgmo.BudgetError, match="smallest peak"):
        recomputed(model, 64, torch.randn(32, WIDTH))


class Checkpointed(Blocks):
    """A model with a checkpoint around each block."""

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.norm(x).square().mean(), x


def test_shares_are_of_the_peak_with_the_checkpoints_of_the_model():
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = Checkpointed()
    plain = copy.deepcopy(model)
    x = torch.randn(2048, WIDTH)
    ours, planned = recomputed(model, 1.0, x)
    assert same(step(ours, x), step(plain, x))
    expected = peak(plain, x)
    assert planned.planned.default.peak == pytest.approx(expected, rel=0.2)
    assert 1.5 * peak(ours, x) < peak(Blocks(), x)
    default = format_bytes(planned.planned.default.peak)
    words = re.escape(f"without recomputation the peak is {default}.")
    with pytest.raises(pgmo.BudgetError, match=words):
        recomputed(plain, 0.1, x)


class Left(Blocks):
    """A model that Dynamo does not compile."""

    @torch._dynamo.disable
    def forward(self, x):
        return super().forward(x)


def test_a_model_that_dynamo_leaves_out_is_refused():
    with pytest.raises(pgmo.errors.GraphError, match="no part of Left"):
        recomputed(Left(), "min", torch.randn(32, WIDTH))


def test_repeated_blocks_are_traced_once():
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = Blocks()
    x = torch.randn(32, WIDTH)
    numbers = []
    with patch.object(blocks, "expand", lambda joint: numbers.append(expand(joint))):
        _, planned = recomputed(copy.deepcopy(model), "min", x)
    assert numbers == [len(model.blocks) - 2]  # the input of the first block needs no gradient
    torch._dynamo.reset()
    with patch.object(blocks, "LEAST", 100):
        _, whole = recomputed(model, "min", x)
    assert planned.planned.schedule.peak == whole.planned.schedule.peak


expand = blocks.expand


@pytest.mark.parametrize("breaks", [False, True])
def test_a_model_that_is_deleted_frees_its_parameters(breaks):
    """Dynamo keeps graphs in its own modules, which must not keep the parameters."""

    class Halves(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 64)

        def forward(self, x):
            x = torch.relu(self.first(x))
            if breaks:
                torch._dynamo.graph_break()
            return torch.relu(self.second(x))

    def trained():
        inner = Halves()
        with warnings.catch_warnings(action="ignore"):
            model, _ = pgmo.recompute(inner, torch.randn(512, 64), "min")
            model(torch.randn(512, 64)).sum().backward()
        return [weakref.ref(one) for one in (model, inner, *inner.parameters())]

    held = trained()
    gc.collect()
    assert [one() for one in held] == [None] * 6
