import gc
import warnings

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

import pgmo
from pgmo.recompute.capture.memory_use.meter import meter


class Dropped(nn.Module):
    """A network whose reruns read masks and statistics of the first run."""

    def __init__(self):
        super().__init__()
        layers = [
            nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Dropout(0.5))
            for _ in range(6)
        ]
        layers.insert(3, nn.AvgPool2d(2))  # so that the first layers make the peak
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return self.layers(x).square().mean()


def test_a_step_takes_what_was_predicted_where_dropouts_and_norms_run_again():
    model, plan = pgmo.recompute(Dropped(), torch.ones(4, 8, 32, 32), budget="min")
    assert {"dropout by its mask", "aten._native_batch_norm_legit_functional"} <= {
        plan.graph.operations[index].name for index in plan.recomputed
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            model(torch.ones(4, 8, 32, 32)).backward()
    assert plan.measured_peak == pytest.approx(plan.peak, rel=1e-3)


@torch.library.custom_op("pgmo_tests::collect", mutates_args=())
def collect(x: torch.Tensor) -> torch.Tensor:
    gc.collect()
    return x.clone()


collect.register_fake(torch.empty_like)
collect.register_autograd(lambda _ctx, gradient: gradient)


class Collecting(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 64)

    def forward(self, x):
        return collect(self.layer(x).tanh()).square().mean()


def test_garbage_freed_during_a_step_is_not_measured():
    x = torch.ones(256, 64)
    model, plan = pgmo.recompute(Collecting(), x, budget=1.0)
    gc.collect()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True):
        circle = [torch.ones(1 << 20)]
        circle.append(circle)
        del circle
    model(x).backward()
    assert plan.measured_peak == pytest.approx(plan.peak, rel=1e-2)


class Denoising(nn.Module):
    """A model whose loss lies in the storage of the squares that it averages."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Sequential(nn.Linear(64, 64), nn.Tanh()) for _ in range(3))
        )

    def forward(self, x):
        return nn.functional.mse_loss(self.layers(x), x)


def test_bytes_of_a_result_beyond_its_elements_are_predicted():
    x = torch.ones(256, 64)
    model, plan = pgmo.recompute(Denoising(), x, budget="min")
    model(x).backward()
    model.zero_grad()
    with meter(torch.device("cpu")) as measured:
        loss = model(x)
        loss.backward()
    assert loss.untyped_storage().nbytes() > loss.element_size()
    assert measured.peak == pytest.approx(plan.peak, rel=2e-3)
