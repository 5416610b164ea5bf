import warnings

import pytest
import torch
from torch import nn

import pgmo

X = torch.linspace(-1, 1, 512 * 64).reshape(512, 64)


def net():
    torch.manual_seed(0)
    return nn.Sequential(*(part for _ in range(4) for part in (nn.Linear(64, 64), nn.GELU())))


def test_two_calls_before_a_backward_pass_are_not_measured():
    model, plan = pgmo.recompute(net(), X, 0.7)
    with pytest.warns(UserWarning, match="before the backward pass of an earlier call") as said:
        (model(X).sum() + model(X.flip(0)).sum()).backward()
        model(X).sum().backward()  # a second warning would make `said` longer
        (model(X).sum() + model(X.flip(0)).sum()).backward()
    assert [one.filename for one in said] == [__file__]
    assert plan.measured_peak is None


def test_losses_that_are_kept_do_not_wait():
    model, _ = pgmo.recompute(net(), X, 1.0)
    kept = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            kept.append(model(X).sum())
            kept[-1].backward()
            model(X)  # its result is freed at once
