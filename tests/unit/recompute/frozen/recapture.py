"""Steps that are captured, and captured again when what they read is something else now."""

import pytest
import torch

import pgmo
from pgmo.recompute.runtime.twin import original

X = torch.ones(8, 16)


def made(model):
    """The model, recomputing: its step is captured at the first call."""
    return pgmo.recompute(model, X, 1.0, measure=False)[0]


def captured_again(model, match):
    """Calls a model whose capture no longer holds: it says so, and computes what it should."""
    with pytest.warns(UserWarning, match="the step is captured again.*" + match):
        found = model(X)
    assert torch.equal(found, original(model)(X))
