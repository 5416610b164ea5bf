"""The peak of a step without recomputation is that of the model by itself, before it has run."""

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import pgmo  # noqa: E402
from pgmo.recompute.capture.taking.meter import meter  # noqa: E402


class Layers(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layers = nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), layer()) for _ in range(4)))

    def forward(self, x):
        return self.layers(x).square().mean()


class Gated(nn.Module):
    """Both derivatives of a product are there before the first of them is read."""

    def forward(self, x):
        return x * torch.sigmoid(1.7 * x)


@pytest.mark.parametrize("layer", [nn.GELU, Gated, lambda: nn.Dropout(0.25)])
def test_the_default_peak_is_what_the_model_takes_by_itself(layer):
    model, x = Layers(layer), torch.ones(256, 64)
    _, plan = pgmo.recompute(model, x, budget="min")
    with meter(torch.device("cpu")) as measured:
        model(x).backward()
    assert plan.default_peak == pytest.approx(measured.whole.peak, rel=2e-3)
    assert plan.peak < plan.default_peak


def test_a_share_is_one_of_that():
    model, x = Layers(lambda: nn.Dropout(0.25)), torch.ones(256, 64)
    _, plan = pgmo.recompute(model, x, budget=0.8)
    assert plan.budget == pytest.approx(0.8 * plan.default_peak, abs=1)
