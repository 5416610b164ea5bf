import copy

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import pgmo  # noqa: E402
from tests.unit.recompute.traced import Normed  # noqa: E402


class Twice(Normed):
    """Decides by a value: two graphs."""

    def forward(self, x):
        x = self.conv(x)
        if x.sum() > 0:
            x = -x
        return self.act(x).square().mean()


@pytest.mark.parametrize("make", [Normed, Twice])
def test_a_compiled_model_gives_the_same_bits(make):
    torch.manual_seed(0)
    plain = make()
    other = copy.deepcopy(plain)
    backend = pgmo.recompute.backend("min", measure=False)
    compiled = torch.compile(other, backend=backend, dynamic=False)
    x = torch.randn(2, 3, 8, 8)
    for model in (plain, compiled):
        model(x).backward()
    for one, two in zip(plain.parameters(), other.parameters(), strict=True):
        assert torch.equal(one.grad, two.grad)
    for one, two in zip(plain.buffers(), other.buffers(), strict=True):
        assert torch.equal(one, two)


def test_a_budget_is_asked_of_the_graph():
    backend = pgmo.recompute.backend("1 KiB", measure=False)
    compiled = torch.compile(nn.Linear(64, 64), backend=backend, dynamic=False)
    with pytest.raises(Exception, match=r"1\.00 KiB"):
        compiled(torch.ones(8, 64))
