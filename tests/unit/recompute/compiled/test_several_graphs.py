"""Tests of models of several graphs: their bits, predicted peaks and messages."""

import copy
import random
import threading
import warnings

import pytest
import torch
from torch import nn

import pgmo
from pgmo.recompute.capture.memory_use.meter import meter
from tests.unit.recompute.compiled import models
from tests.unit.recompute.compiled.models import batch, step
from tests.unit.recompute.steps import proposed, same

pytestmark = pytest.mark.filterwarnings("ignore:the forward pass is not a single graph")


def made(kind, budget="min", **options):
    """Return the plain model, the one that recomputes, and its plan."""
    torch.manual_seed(0)
    plain = kind()
    random.seed(0)
    return plain, *pgmo.recompute(copy.deepcopy(plain), batch(0), budget, **options)


def peak(model, inputs):
    model.zero_grad(set_to_none=True)
    random.seed(0)
    with meter(torch.device("cpu")) as measured:
        result = model(*inputs)
        (result if isinstance(result, torch.Tensor) else result["loss"]).backward()
    return measured.peak


@pytest.mark.parametrize(
    "kind",
    [
        models.Blocks,
        models.Whole,
        models.Shared,
        models.Written,
        models.Hidden,
        models.Convolutions,
    ],
)
def test_graphs_share_a_plan_whose_peak_is_that_of_a_step_and_keep_all_bits(kind):
    plain, model, plan = made(kind)
    assert (plan.graphs > 1) is (kind is not models.Whole)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number in range(3):
            assert same(step(model, batch(number), number), step(plain, batch(number), number))
    assert plan.measured_peak == pytest.approx(plan.peak, rel=0.01)
    assert "A real step took" in plan.explain()
    plain_peak = peak(copy.deepcopy(plain), batch(0))
    assert plan.default_peak == pytest.approx(plain_peak, rel=0.01)
    assert plan.peak < 0.9 * plan.default_peak
    assert peak(model, batch(0)) == pytest.approx(plan.peak, rel=0.01)


def test_graphs_that_would_add_up_gradients_in_another_order_run_as_they_are():
    with pytest.warns(UserWarning, match="a graph runs unchanged.* in another order"):
        plain, model, plan = made(models.Decoder)
    assert plan.graphs == 1  # the encoder
    for number in range(3):
        assert same(step(model, batch(number), number), step(plain, batch(number), number))
    assert plan.measured_peak == pytest.approx(plan.peak, rel=0.01)
    assert plan.peak < plan.default_peak


class TwoLosses(nn.Module):
    """A model with one graph of two results, in which a layer runs twice."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 16)

    def forward(self, x):
        x = torch.tanh(self.layer(torch.tanh(self.layer(x))))
        return x.square().mean(), x.abs().mean()


def test_two_results_of_a_graph_count_once_in_its_sums(recwarn):
    torch.manual_seed(0)
    plain, x = TwoLosses(), torch.randn(8, 16)
    model, plan = pgmo.recompute(copy.deepcopy(plain), x, measure=False)
    assert not list(recwarn)
    assert plan.graphs == 1
    for one in (plain, model):
        sum(one(x)).backward()
    assert torch.equal(model.layer.weight.grad, plain.layer.weight.grad)


class Outside(nn.Module):
    """A model whose layer runs twice in the only graph and once outside."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 16)

    @torch.compiler.disable
    def loss(self, x):
        return x.mean() + self.layer.weight.square().sum()

    def forward(self, x):
        return self.loss(torch.tanh(self.layer(torch.tanh(self.layer(x)))))


def test_a_model_without_a_plannable_graph_is_an_error_that_says_so():
    with (
        pytest.warns(UserWarning, match="a graph runs unchanged.* in another order"),
        pytest.raises(pgmo.errors.GraphError, match="no graph of the model can be planned"),
    ):
        pgmo.recompute(Outside(), torch.randn(8, 16), measure=False)


class Turned(nn.Module):
    """A model in which the gradient of a graph's result is transposed."""

    def __init__(self):
        super().__init__()
        self.convolution, self.norm = nn.Conv1d(8, 8, 3, padding=1), nn.LayerNorm(8)
        self.block = models.Block()

    def begin(self, x):
        x = self.convolution(self.block(x).reshape(-1, 8, 32)).tanh()
        torch._dynamo.graph_break()
        return x.transpose(1, 2).contiguous()

    def forward(self, x, labels):
        return self.norm(models.opaque(self.begin(x))).square().mean() + 0 * labels.sum()


def test_a_gradient_in_another_layout_leads_to_the_same_bits():
    plain, model, _ = made(Turned)
    for number in range(3):
        assert same(step(model, batch(number), number), step(plain, batch(number), number))


def test_the_budget_is_one_for_all_graphs():
    _, model, plan = made(models.Blocks, budget=0.75)
    assert plan.overhead > 0
    assert plan.peak <= plan.budget == int(0.75 * plan.default_peak)
    assert peak(model, batch(0)) <= plan.budget
    assert f"not a single graph: {plan.graphs} graphs share the budget" in plan.explain()
    least = made(models.Blocks)[2]
    with pytest.raises(pgmo.BudgetError, match=f"Allow {least.peak} bytes"):
        made(models.Blocks, budget=least.peak - 1)
    first, *_, last = plan.curve(points=3).choices
    assert first.peak <= plan.peak
    assert last.overhead == 0
    assert first.overhead > 0


@pytest.mark.parametrize("kind", [models.Blocks, models.Whole])
def test_a_capture_runs_no_hook_and_restores_random_numbers(kind):
    torch.manual_seed(0)
    model = kind()
    model.head.weight.register_hook(lambda _gradient: pytest.fail("a hook ran"))
    drawn = random.getstate(), torch.get_rng_state()  # dropout draws numbers
    pgmo.recompute(model, batch(0), "min", planner=proposed)
    assert random.getstate() == drawn[0]
    assert torch.equal(torch.get_rng_state(), drawn[1])
    assert all(one.grad is None for one in model.parameters())


def test_a_counter_counts_calls():
    class Counts(models.Blocks):
        def between(self, x):
            return x

    plain, model, plan = made(Counts, planner=proposed)
    assert model.calls == 0
    for number in range(6):
        assert same(step(model, batch(number), number), step(plain, batch(number), number))
    assert model.calls == 6
    graphs = model.forward._graphs
    for number in range(6):
        step(model, batch(number), number)
    assert model.forward._graphs == graphs
    assert plan.measured_peak == pytest.approx(plan.peak, rel=0.01)


def test_later_graphs_are_planned_before_the_next_step():
    plain, model, plan = made(models.LayerDrop)
    before = plan.peak
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="The .grad attribute")  # hidden by Dynamo
        for number in range(8):
            assert same(step(model, batch(number), number), step(plain, batch(number), number))
    assert plan.peak >= before  # some way runs more blocks


def test_graphs_of_other_shapes_in_each_step():
    plain, model, _ = made(models.Experts, measure=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(12):
            inputs = batch(number, 24)
            assert same(step(model, inputs, number), step(plain, inputs, number))


@pytest.mark.parametrize("kind", [models.Blocks, models.Whole])
def test_backward_passes_may_run_twice_and_in_another_order(kind):
    plain, model, _ = made(kind, planner=proposed)
    for one in (plain, model):
        step(one, batch(2), 2)  # measured, with a single backward pass
        torch.manual_seed(0)
        first, second = one(*batch(0)), one(*batch(1))
        first.backward(retain_graph=True)
        second.backward()
        first.backward()
    for one, two in zip(plain.parameters(), model.parameters(), strict=True):
        assert torch.equal(one.grad, two.grad)


@pytest.mark.parametrize("kind", [models.Blocks, models.Whole])
def test_other_batches_modes_and_switched_gradients(kind):
    plain, model, _ = made(kind)
    assert same(step(model, batch(1, 24), 0), step(plain, batch(1, 24), 0))
    with torch.no_grad():
        torch.manual_seed(0)
        ours = model(*batch(2))
        torch.manual_seed(0)
        assert torch.equal(ours, plain(*batch(2)))
    for one in (plain, model):
        one.eval()
        one.blocks[1].requires_grad_(False)
    assert same(step(model, batch(3), 0), step(plain, batch(3), 0))


def test_other_threads_find_the_modules_as_they_are():
    found = []

    class Meets(models.Blocks):
        meets = False

        def between(self, x):
            if self.meets:
                own = self.blocks[0].norm  # without random numbers, as Dynamo restores generators
                thread = threading.Thread(target=lambda: found.append(own(x.detach())))
                thread.start()
                thread.join()
            return models.opaque(x)

    plain, model, _ = made(Meets)
    plain.meets = model.meets = True
    assert same(step(model, batch(0), 0), step(plain, batch(0), 0))
    assert len(found) == 6


def test_the_earlier_plan_is_kept_if_later_graphs_do_not_fit():
    class Chooses(models.Blocks):
        longer = False

        def forward(self, x, labels):
            for block in self.blocks if self.longer else self.blocks[:1]:
                x = self.between(block(x))
            return nn.functional.cross_entropy(self.head(x), labels)

    least = made(Chooses)[2].peak
    plain, model, _ = made(Chooses, budget=least)
    plain.longer = model.longer = True
    assert same(step(model, batch(0), 0), step(plain, batch(0), 0))
    with pytest.warns(UserWarning, match="the earlier plan is kept: no recomputation was found"):
        assert same(step(model, batch(1), 1), step(plain, batch(1), 1))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for number in (2, 3):
            assert same(step(model, batch(number), number), step(plain, batch(number), number))
    assert not [one for one in caught if "the earlier plan is kept" in str(one.message)]
