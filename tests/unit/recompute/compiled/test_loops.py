import copy

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import pgmo  # noqa: E402
from pgmo.recompute.capture.taking.meter import meter  # noqa: E402
from tests.unit.recompute.steps import same, step  # noqa: E402

WIDTH = 32


class Sequences(nn.Module):
    """Containers of PyTorch's in a loop in which Python reads a value."""

    def __init__(self, depth=4):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
            for _ in range(depth)
        )
        self.read = []

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
            self.read.append(f"{x.detach().std().item():.2f}")
        return (x.square().mean(),)


def test_containers_of_pytorch_are_captured_where_the_loop_around_them_is_not():
    torch._dynamo.reset()
    model, x = Sequences(), torch.randn(256, WIDTH)
    plain = copy.deepcopy(model)
    with pytest.warns(
        UserWarning, match=r"value of a tensor is read, at .*test_loops\.py:\d+: self"
    ):
        ours, plan = pgmo.recompute(model, x, budget="min")
    assert plan.peak < 0.9 * plan.default_peak
    for seed in range(2):
        assert same(step(ours, x, seed=seed), step(plain, x, seed=seed))
    ours.zero_grad(set_to_none=True)
    with meter(torch.device("cpu")) as measured:
        ours(x)[0].backward()
    assert measured.whole.peak == pytest.approx(plan.peak, rel=0.01)
