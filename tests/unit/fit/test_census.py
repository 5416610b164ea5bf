"""Tests of the parameters and modules that the observer of `pgmo fit` finds."""

import pytest

torch = pytest.importorskip("torch")

from pgmo.fit.observer import census  # noqa: E402


def test_lists_of_modules_may_contain_none() -> None:
    layers = torch.nn.ModuleList([torch.nn.Linear(4, 8, bias=False), None, torch.nn.ReLU()])
    assert census.largest_block(layers) == 4 * 8 * 4
