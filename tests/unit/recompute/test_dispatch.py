import warnings

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import pgmo  # noqa: E402
from pgmo.recompute import workspaces  # noqa: E402


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.drop, self.last = nn.Linear(64, 64), nn.Dropout(), nn.Linear(64, 64)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.last(self.drop(self.first(x).sigmoid().exp())).sum()


def test_each_kind_of_call_is_captured_once():
    model, _ = pgmo.recompute(Net(), torch.ones(4, 64), measure=False, check=False)
    calls = model.forward.calls
    for rows in (4, 6, 4, 6):
        model(torch.ones(rows, 64)).backward()
    assert len(calls) == 2
    model.eval()
    model(torch.ones(4, 64)).backward()
    assert len(calls) == 3
    model.first.weight.requires_grad_(False)
    model(torch.ones(4, 64)).backward()
    assert len(calls) == 4
    assert model.first.weight.grad is not None  # of the calls before


def test_without_gradients_the_model_runs_as_it_is():
    model, _ = pgmo.recompute(Net(), torch.ones(4, 64), measure=False)
    before = model.calls
    with torch.no_grad():
        model(torch.ones(4, 64))
        model(torch.ones(5, 64))
    assert model.calls == before + 2
    assert len(model.forward.calls) == 1


def test_autocast_is_another_kind_of_call():
    model, _ = pgmo.recompute(Net(), torch.ones(4, 64), measure=False, check=False)
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(torch.ones(4, 64))
    loss.backward()
    assert len(model.forward.calls) == 2
    assert model.first.weight.grad.dtype == torch.float32


def test_a_peak_that_was_not_predicted_leads_to_another_plan(monkeypatch):
    monkeypatch.setattr(workspaces, "_known", {})
    monkeypatch.setattr(workspaces, "measure", lambda nodes, least: 0)  # so nothing is known
    model, plan = pgmo.recompute(Net(), torch.ones(512, 64), None)
    predicted = plan.peak
    model(torch.ones(512, 64)).backward()
    assert plan.measured_peak > 1.02 * predicted
    with pytest.warns(UserWarning, match="were predicted. It is planned again"):
        model(torch.ones(512, 64)).backward()
    assert plan.peak > predicted
    assert plan.measured_peak == pytest.approx(plan.peak, rel=0.02)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(torch.ones(512, 64)).backward()


def test_a_peak_that_was_predicted_is_not_spoken_of():
    model, plan = pgmo.recompute(Net(), torch.ones(512, 64))
    assert plan.measured_peak is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            model(torch.ones(512, 64)).backward()
    assert plan.measured_peak == pytest.approx(plan.peak, rel=0.02)


def test_nothing_is_measured_when_that_is_not_wanted():
    model, plan = pgmo.recompute(Net(), torch.ones(8, 64), measure=False, check=False)
    model(torch.ones(8, 64)).backward()
    assert plan.measured_peak is None
