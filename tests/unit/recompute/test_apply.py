import copy
import re

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import pgmo  # noqa: E402
from pgmo.recompute.runtime.twin import original  # noqa: E402
from tests.unit.recompute.steps import same, step  # noqa: E402


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


def test_a_budget_may_be_a_share_of_the_peak():
    _, plan = recomputed(0.9)
    assert plan.budget == int(0.9 * plan.default_peak)
    assert plan.peak <= plan.budget < plan.default_peak


def test_an_impossible_budget_names_the_least_peak():
    least = recomputed()[1].peak
    with pytest.raises(pgmo.BudgetError) as raised:
        recomputed("1 KiB")
    named = [int(word) for word in str(raised.value).replace("(", " ").split() if word.isdigit()]
    assert 1024 < max(named) <= least


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
    other, _ = pgmo.recompute(model, X, measure=False)
    assert original(other) is plain


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


def test_modes_reach_the_result_and_the_original():
    class Noisy(nn.Linear):
        def forward(self, x):
            return nn.functional.dropout(super().forward(x), 0.5, self.training)

    plain = Noisy(8, 8)
    model, _ = pgmo.recompute(plain, X, 1.0, measure=False)
    plain.eval()
    assert torch.equal(model(X), plain(X))
    model.train()
    assert plain.training


def test_without_example_inputs_the_first_call_is_planned():
    plain = network()
    model, plan = pgmo.recompute(plain, budget=0.9, measure=False)
    assert repr(plan) == "RecomputePlan(not planned before the first call)"
    with pytest.raises(pgmo.errors.GraphError, match="nothing is planned yet"):
        _ = plan.peak
    with torch.no_grad():
        model(X)
    assert "not planned" in repr(plan)
    model(X).sum().backward()
    assert plan.peak <= 0.9 * plan.default_peak


def test_a_budget_that_cannot_be_met_says_what_the_least_peak_consists_of():
    with pytest.raises(
        pgmo.BudgetError, match=r"at the step's peak, in aten\.\w+.*gradients of parameters"
    ):
        pgmo.recompute(network(), X[:1], budget=100)


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x, y):
        return (self.layer(x) + y).sum()


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ((torch.ones(4, 8),), "missing a required argument: 'y'. It takes (x, y)"),
        ((torch.ones(4, 8),) * 3, "too many positional arguments. It takes (x, y)"),
        ({"x": torch.ones(4, 8), "z": 1}, "missing a required argument: 'y'"),
    ],
)
def test_arguments_that_forward_does_not_take_are_named(inputs, words):
    with pytest.raises(pgmo.errors.GraphError, match=re.escape(words)) as reported:
        pgmo.recompute(Two(), inputs)
    assert "unique()" not in str(reported.value)


def test_a_wrong_shape_names_the_line_and_logs_nothing(capfd):
    with pytest.raises(
        pgmo.errors.GraphError, match=r"self\.layer\(x\) \+ y.* the inputs do not fit it"
    ):
        pgmo.recompute(Two(), (torch.ones(4, 7), torch.ones(4, 8)))
    assert "Traceback" not in capfd.readouterr().err


def test_a_backward_pass_may_run_twice():
    """The first step has a single backward pass, and the second has two."""
    torch.manual_seed(0)
    plain = nn.Sequential(*[nn.Sequential(nn.Linear(16, 16), nn.GELU()) for _ in range(4)])
    batch = torch.randn(512, 16)
    model, plan = pgmo.recompute(copy.deepcopy(plain), (batch,))
    assert plan.recomputed
    for one in (plain, model):
        one(batch).sum().backward()
        loss = one(batch).square().sum()
        loss.backward(retain_graph=True)
        loss.backward()
    pairs = zip(plain.parameters(), model.parameters(), strict=True)
    assert all(torch.equal(ours.grad, theirs.grad) for ours, theirs in pairs)


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


def test_an_lstm_inside_of_a_model_keeps_its_kernels_on_a_cpu():
    torch.manual_seed(0)
    plain, batch = Remembering(), torch.randn(32, 8, 16)
    with pytest.warns(UserWarning, match="the forward pass is not a single graph"):
        model, plan = pgmo.recompute(copy.deepcopy(plain), (batch,))
    assert plan.graphs == 1
    for seed in range(3):
        assert same(step(model, batch, seed=seed), step(plain, batch, seed=seed))
    assert plan.measured_peak == pytest.approx(plan.peak, rel=0.01)
    with pytest.raises(pgmo.errors.GraphError, match="the forward pass is not a single graph"):
        pgmo.recompute(copy.deepcopy(plain), (batch,), whole=True)


def test_an_old_version_of_pytorch_is_refused(monkeypatch):
    monkeypatch.setattr("pgmo.recompute.capture.compat.version", lambda: (2, 10))
    with pytest.raises(pgmo.errors.OptionError, match=r"needs PyTorch 2\.11 or later"):
        pgmo.recompute(nn.Linear(8, 8), torch.ones(4, 8))
    with pytest.raises(pgmo.errors.OptionError, match=r"needs PyTorch 2\.11 or later"):
        pgmo.recompute.backend()
