"""Modules and forward methods that are put in the place of others are captured anew."""

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from pgmo.recompute.runtime.twin import original  # noqa: E402
from tests.unit.recompute.frozen.recapture import X, made  # noqa: E402


def test_a_forward_method_of_a_submodule_put_there_later_is_captured_anew():
    class Loss(nn.Sequential):
        def forward(self, x):
            return super().forward(x).square().mean()

    plain = Loss(nn.Linear(16, 16), nn.Tanh())
    model = made(plain)
    before = model(X)
    for function in (torch.sigmoid, lambda x: x):
        plain[1].forward = function
        assert torch.equal(model(X), original(model)(X))
    del plain[1].forward
    assert torch.equal(model(X), before)


def test_another_module_in_the_place_of_one_is_captured_anew():
    class Loss(nn.Sequential):
        def forward(self, x):
            return super().forward(x).square().mean()

    model = made(Loss(nn.Linear(16, 16), nn.Tanh()))
    assert torch.equal(model(X), original(model)(X))
    model[1] = nn.Sigmoid()
    assert torch.equal(model(X), original(model)(X))
