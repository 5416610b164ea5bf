import copy

import pytest
import torch
from torch import nn

import pgmo
from pgmo.recompute.runtime.twin import original


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
    assert isinstance(made, nn.Sequential)
    assert type(made).__qualname__ == "Sequential"
    assert made is not model
    assert "forward" not in model.__dict__
    assert type(model) is nn.Sequential
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"costs": "measured"}, "no option 'costs'; it was removed: leave it out"),
        ({"counts": "all"}, "no option 'counts'; it was removed: subtract plan.resident"),
        ({"planner": "oracle"}, "planner is 'oracle'; give a function"),
        ({"budget": "much"}, "cannot read 'much'"),
        ({"budget": 1.5}, "a share of the peak must be above 0"),
        ({"budget": True}, "the budget is True"),
    ],
)
def test_options_that_cannot_be_used(options, message):
    with pytest.raises(pgmo.PgmoError, match=message):
        recomputed(**options)


def test_gradients_need_not_be_enabled_when_it_is_planned():
    with torch.no_grad():
        _, plan = recomputed()
    assert plan.recomputed


def test_only_modules_can_be_given():
    with pytest.raises(pgmo.errors.OptionError, match="model is a function"):
        pgmo.recompute(lambda x: x, X)


def test_a_model_that_recomputes_is_planned_anew():
    plain = network()
    model, _ = pgmo.recompute(plain, X, measure=False)
    other, plan = pgmo.recompute(model, X, 1.0, measure=False)
    assert original(other) is plain
    assert not plan.recomputed


def test_a_model_may_be_trained_beside_its_original():
    plain = network()
    reference = copy.deepcopy(plain)
    model, _ = pgmo.recompute(plain, X, measure=False)
    for one in (model, plain):
        one(X).sum().backward()
        reference(X).sum().backward()
    for one, other in zip(plain.parameters(), reference.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad)


def test_without_measuring_no_step_is_measured():
    model, plan = recomputed(1.0)
    for _ in range(2):
        model(X).sum().backward()
    assert plan.measured_peak is None


def test_without_example_inputs_the_first_call_is_planned():
    plain = network()
    model, plan = pgmo.recompute(plain, budget=0.9, measure=False)
    assert repr(plan) == "RecomputePlan(nothing is planned yet)"
    with pytest.raises(pgmo.errors.GraphError, match="nothing is planned yet"):
        _ = plan.peak
    with torch.no_grad():
        model(X)
    assert "nothing is planned yet" in repr(plan)
    model(X).sum().backward()
    assert plan.peak <= 0.9 * plan.default_peak


def test_a_budget_that_cannot_be_met_says_what_the_least_peak_consists_of():
    with pytest.raises(
        pgmo.BudgetError, match=r"at the step's peak, in aten\.\w+.*gradients of parameters"
    ):
        pgmo.recompute(network(), X[:1], budget=100)


class Remembering(nn.Module):
    """A recurrent layer, followed by layers that can be captured."""

    def __init__(self):
        super().__init__()
        self.memory = nn.LSTM(16, 16, batch_first=True)
        layers = [nn.Sequential(nn.Linear(16, 16), nn.GELU()) for _ in range(4)]
        self.rest = nn.Sequential(*layers)

    def forward(self, x):
        return self.rest(self.memory(x)[0]).square().mean()


def test_an_lstm_of_onednn_in_a_graph_is_refused():
    class Called(Remembering):
        def forward(self, x):
            state = x.new_zeros(1, len(x), 16)
            weights = self.memory._flat_weights
            call = ((state, state), weights, True, 1, 0.0, True, False, True)
            return torch._VF.lstm(x, *call)[0].square().mean()

    with pytest.raises(pgmo.errors.GraphError, match="the LSTM of oneDNN cannot be captured"):
        pgmo.recompute(Called(), (torch.randn(4, 5, 16),), measure=False)


def test_an_old_version_of_pytorch_is_refused(monkeypatch):
    monkeypatch.setattr("pgmo.recompute.capture.compat.version", lambda: (2, 10))
    with pytest.raises(pgmo.errors.OptionError, match=r"needs PyTorch 2\.11 or later"):
        pgmo.recompute(nn.Linear(8, 8), torch.ones(4, 8))
    with pytest.raises(pgmo.errors.OptionError, match=r"needs PyTorch 2\.11 or later"):
        pgmo.recompute.backend()
