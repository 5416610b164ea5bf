import copy

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import pgmo  # noqa: E402


def network():
    torch.manual_seed(0)
    layers = [nn.Linear(8, 8) if even else nn.Sigmoid() for even in (True, False) * 5]
    return nn.Sequential(*layers)


X = torch.ones(256, 8)
PARAMETERS = 5 * (8 * 8 + 8) * 4


def recomputed(budget="min", **options):
    return pgmo.recompute(network(), X, budget, measure=False, **options)


def test_the_result_is_the_model_with_another_forward():
    model = network()
    made, plan = pgmo.recompute(model, X, measure=False)
    assert type(made) is nn.Sequential
    assert made is not model
    assert "forward" not in model.__dict__
    assert [id(one) for one in made.parameters()] == [id(one) for one in model.parameters()]
    assert made.state_dict().keys() == model.state_dict().keys()
    assert plan.resident == PARAMETERS + X.nbytes


def test_inputs_are_a_tuple_or_by_name_or_one():
    class Both(nn.Linear):
        def forward(self, left, right, scale=1.0):
            return {"sum": (super().forward(left) * scale + right).sigmoid(), "scale": scale}

    for example in ((X, X), (X, X, 2.0), {"right": X, "left": X}):
        model, _ = pgmo.recompute(Both(8, 8), example, measure=False)
        result = model(*example) if isinstance(example, tuple) else model(**example)
        assert result["sum"].requires_grad
        assert result["scale"] == (2.0 if len(example) == 3 else 1.0)


@pytest.mark.parametrize("planner", ["search", "min-cut", "chen", "kusumoto"])
def test_planners_by_name(planner):
    _, plan = recomputed(planner=planner)
    assert plan.peak <= plan.default_peak
    assert planner == "search" or plan.planner.startswith((planner, "default"))
    assert bool(plan.recomputed) == (plan.planner != "default")


def test_a_budget_may_count_what_is_there_before():
    _, plan = recomputed()
    whole = plan.peak + plan.resident
    _, same = recomputed(whole, counts="all")
    assert same.peak <= plan.peak
    with pytest.raises(pgmo.BudgetError, match=r"the inputs alone take 9\.41 KiB"):
        recomputed("1 KiB", counts="all")


@pytest.mark.parametrize("planner", ["search", "chen"])
def test_an_impossible_budget_names_the_least_peak(planner):
    least = recomputed(planner=planner)[1].peak
    with pytest.raises(pgmo.BudgetError, match=str(least)):
        recomputed("1 KiB", planner=planner)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"costs": "guessed"}, "costs is 'guessed'"),
        ({"counts": "some"}, "counts is 'some'"),
        ({"planner": "oracle"}, "no planner is called 'oracle'"),
        ({"budget": "much"}, "cannot read 'much'"),
    ],
)
def test_options_that_cannot_be_used(options, message):
    with pytest.raises(pgmo.PgmoError, match=message):
        recomputed(**options)


def test_measured_costs_are_seconds():
    _, plan = recomputed(None, costs="measured")
    assert plan.graph.forward_cost > 0
    assert plan.graph.forward_cost != recomputed(None)[1].graph.forward_cost


def test_what_cannot_be_captured_says_what_to_do():
    class Looks(nn.Linear):
        def forward(self, x):
            return super().forward(x if x.sum() > 0 else -x)

    with pytest.raises(pgmo.GraphError, match=r"torch\.compile"):
        pgmo.recompute(Looks(8, 8), X)
    with pytest.raises(pgmo.GraphError, match="nothing in the model needs gradients"):
        pgmo.recompute(network().requires_grad_(False), X)


def test_a_model_may_be_trained_beside_its_original():
    plain = network()
    reference = copy.deepcopy(plain)
    model, _ = pgmo.recompute(plain, X, measure=False)
    for one in (model, plain):
        one(X).sum().backward()
        reference(X).sum().backward()
    for one, other in zip(plain.parameters(), reference.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad)
