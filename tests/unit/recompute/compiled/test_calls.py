import copy
import threading
import warnings

import pytest
import torch
from torch import nn

import pgmo
from pgmo.recompute.capture.memory_use import workspaces
from pgmo.recompute.planners.planning import plan_choice
from tests.unit.recompute.steps import same, step


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.drop, self.last = nn.Linear(64, 64), nn.Dropout(), nn.Linear(64, 64)

    def forward(self, x):
        return self.last(self.drop(self.first(x).sigmoid().exp())).sum()


def test_each_kind_of_call_is_captured_once():
    model, _ = pgmo.recompute(Net(), torch.ones(4, 64), measure=False)
    steps = model.forward.steps
    for rows in (4, 6, 4, 6):
        model(torch.ones(rows, 64)).backward()
        with torch.no_grad():  # runs as it is
            model(torch.ones(rows + 1, 64))
    assert len(steps) == 2
    model.eval()
    model(torch.ones(4, 64)).backward()
    assert len(steps) == 3
    model.first.weight.requires_grad_(False)
    model(torch.ones(4, 64)).backward()
    assert len(steps) == 4
    assert model.first.weight.grad is not None  # from earlier calls
    model.bfloat16()
    model(torch.ones(4, 64, dtype=torch.bfloat16)).backward()
    assert len(steps) == 5
    with torch.backends.mkldnn.flags(enabled=False):
        model(torch.ones(4, 64, dtype=torch.bfloat16)).backward()
    assert len(steps) == 6
    with torch.autocast("cpu", torch.bfloat16):
        model(torch.ones(4, 64, dtype=torch.bfloat16)).backward()
    assert len(steps) == 7


@pytest.mark.parametrize("options", [{}, {"offload": 1e12}])
def test_a_graph_that_comes_in_the_middle_of_a_step_is_planned_with_the_next_one(options):
    class Scaled(Net):
        scale = 1.0

        def forward(self, x):
            return self.scale * super().forward(x)

    plain = Scaled()
    model, plan = pgmo.recompute(copy.deepcopy(plain), torch.ones(64, 64), **options)
    peak = plan.peak
    plain.scale = model.scale = 2.0
    for number in range(3):
        x = torch.randn(64, 64)
        assert same(step(model, x, seed=number), step(plain, x, seed=number))
    assert plan.measured_peak == pytest.approx(plan.peak, rel=0.01)
    assert plan.peak == pytest.approx(peak, rel=0.1)


def test_graphs_of_earlier_plans_run_again_by_their_plans():
    model, _ = pgmo.recompute(Net(), torch.ones(64, 64), measure=False)
    model.eval()
    (step_,) = {id(one): one for one in model.forward.steps.values()}.values()
    for rate in (0.5, 0.25, 0.25, 0.5, 0.25):
        model.train()
        model.drop.p = rate
        model(torch.ones(64, 64)).backward()
    assert step_._plans == 1
    assert len(step_._numbers) == 2


class CastByHand(torch.autograd.Function):
    """A product whose backward pass autocast would round."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x.float(), weight)
        return (x @ weight).float()

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        return gradient @ weight.t(), x.t() @ gradient


def test_the_backward_pass_is_captured_without_autocast():
    class Product(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(16, 16))

        def forward(self, x):
            return CastByHand.apply(x.sigmoid(), self.weight).square().mean()

    torch.manual_seed(0)
    plain, x = Product(), torch.randn(8, 16)
    other = copy.deepcopy(plain)
    with torch.autocast("cpu", torch.bfloat16):
        model, _ = pgmo.recompute(other, x, measure=False)
        losses = [plain(x), model(x)]
    for loss in losses:
        loss.backward()
    assert torch.equal(plain.weight.grad, other.weight.grad)


def test_a_peak_below_the_prediction_gives_a_warning(monkeypatch):
    large = workspaces.OperatorMeasurement(1 << 20)
    monkeypatch.setattr(workspaces, "measured", lambda node: large)
    model, _ = pgmo.recompute(Net(), torch.ones(64, 64), "1 GiB")
    for _ in range(2):
        model.zero_grad()
        model(torch.ones(64, 64)).backward()
    with pytest.warns(UserWarning, match="may recompute less") as said:
        model(torch.ones(64, 64)).backward()
    assert said[0].filename == __file__


@pytest.mark.parametrize(
    ("budget", "words"), [("1 GiB", r"predicted\. Give a smaller budget"), (None, "predicted$")]
)
def test_two_steps_above_the_prediction_give_a_warning(monkeypatch, budget, words):
    monkeypatch.setattr(workspaces, "_known", {})
    monkeypatch.setattr(workspaces, "measure", lambda nodes, least: 0)  # workspaces are unknown
    model, plan = pgmo.recompute(Net(), torch.ones(512, 64), budget)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            model.zero_grad()
            model(torch.ones(512, 64)).backward()
            assert plan.measured_peak > 1.02 * plan.peak
    with pytest.warns(UserWarning, match=words):
        model(torch.ones(512, 64))


def test_a_call_in_which_nothing_is_trained_runs_as_it_is():
    plain = Net()
    model, _ = pgmo.recompute(plain, torch.ones(4, 64), measure=False)
    weights = {name: one.detach() for name, one in plain.named_parameters()}
    torch.manual_seed(0)
    loss = torch.func.functional_call(model, weights, (torch.ones(4, 64),))
    torch.manual_seed(0)
    assert torch.equal(loss, plain(torch.ones(4, 64)))
    plain.requires_grad_(False)
    assert not model(torch.ones(4, 64)).requires_grad
    assert len(model.forward.steps) == 1
    inputs = torch.ones(4, 64, requires_grad=True)
    model(inputs).backward()
    assert inputs.grad is not None


def test_a_model_that_detaches_its_result_runs_as_it_is():
    class Detached(Net):
        def forward(self, x):
            made = super().forward(x)
            return made if self.training else made.detach()

    model, _ = pgmo.recompute(Detached(), torch.ones(4, 64), measure=False)
    model.eval()
    for _ in range(2):
        assert not model(torch.ones(4, 64)).requires_grad
    with pytest.raises(pgmo.errors.GraphError, match="no captured result of the model needs"):
        pgmo.recompute(model, torch.ones(4, 64))


def test_settings_changed_by_a_capture_do_not_start_another():
    class Settles(Net):
        def forward(self, x):
            torch.backends.cuda.enable_cudnn_sdp(False)
            return super().forward(x)

    before = torch.backends.cuda.cudnn_sdp_enabled()
    try:
        model, plan = pgmo.recompute(Settles(), torch.ones(4, 64))
        model(torch.ones(4, 64)).backward()
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)
    assert len(model.forward.steps) == 1
    assert plan.measured_peak is not None


def test_one_tensor_given_twice_is_captured_as_one():
    torch.manual_seed(0)
    plain = nn.MultiheadAttention(16, 2, batch_first=True)
    model, _ = pgmo.recompute(plain, (torch.ones(2, 5, 16),) * 3, 1.0, measure=False)
    x = torch.randn(2, 5, 16)
    for given in ((x, x, x), (x, x.clone(), x), (x, x, x)):
        assert torch.equal(model(*given)[0], plain(*given)[0])
    assert len(model.forward.steps) == 2


def test_threads_capture_and_measure_in_turn():
    made, failed = {}, []

    def work(number):
        try:
            torch.manual_seed(0)
            model, plan = pgmo.recompute(Net(), torch.ones(64, 64))
            for _ in range(2):
                model.zero_grad()
                model(torch.ones(64, 64)).backward()
            made[number] = model, plan
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert failed == []
    for model, _ in made.values():  # threads measure in turn, so that some have not measured yet
        model.zero_grad()
        model(torch.ones(64, 64)).backward()
    assert len({plan.measured_peak for _, plan in made.values()}) == 1


def test_a_module_by_two_names_keeps_its_parameters():
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.norm = nn.Linear(64, 64), nn.BatchNorm1d(64)
            self.again = self.first

        def forward(self, x):
            return self.norm(self.again(self.norm(self.first(x)).tanh())).square().mean()

    plain = Shared()
    other = copy.deepcopy(plain)
    before = dict(plain.state_dict(keep_vars=True))
    model, _ = pgmo.recompute(plain, torch.randn(4, 64), measure=False)
    assert all(one is before[name] for name, one in plain.state_dict(keep_vars=True).items())
    x = torch.randn(4, 64)
    assert same(step(model, x), step(other, x))


class Chain(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(8))

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x).exp().neg())
        return x.sum()


@pytest.mark.parametrize("budget", [0.6, "min"])
def test_one_choice_serves_all_shapes_and_the_budget_is_that_of_the_longest(budget):
    searched = []

    def planner(graph, limit):
        searched.append(limit)
        return plan_choice(graph, limit, evaluations=2000)

    model, plan = pgmo.recompute(
        Chain(), torch.ones(512, 32), budget=budget, planner=planner, measure=False
    )
    for rows in (512, 500, 256, 64):
        model(torch.ones(rows, 32)).backward()
    assert len(searched) == 1
    planned = [one.planned for one in model.forward.steps.values()]
    peaks = [one.schedule.peak for one in planned]
    assert len(peaks) == 4
    assert max(peaks) == plan.peak
    budgets = [one.budget for one in planned]
    assert budgets[1:] == 3 * [plan.peak if budget == "min" else plan.budget]
    model(torch.ones(2048, 32)).backward()
    if budget == "min":
        assert searched == ["min", "min"]  # the least peak of a longer batch needs a search
    else:
        longest = list(model.forward.steps.values())[-1].planned
        assert longest.budget == int(budget * longest.default.peak) > plan.budget
        assert longest.schedule.peak <= longest.budget
