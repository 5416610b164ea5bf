import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

import pgmo  # noqa: E402

Q = torch.linspace(-1, 1, 2 * 2 * 8 * 8).reshape(2, 2, 8, 8)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(8))

    def forward(self, q):
        made = functional.scaled_dot_product_attention(q * self.scale, q, q)
        return made.sum() + torch.ones(()).to(made.dtype)


def operators(model):
    call = list(model.forward.calls.values())[-1][0]
    return [one.name for one in call.planned.captured.graph.operations]


def test_each_kernel_of_attention_is_captured_by_itself():
    model, _ = pgmo.recompute(Attention(), Q, 1.0, measure=False)
    assert any("flash" in name for name in operators(model))
    with sdpa_kernel(SDPBackend.MATH):
        model(Q).backward()
        assert not any("flash" in name for name in operators(model))
        model(Q).backward()
    model(Q).backward()
    assert len(model.forward.calls) == 2


@pytest.mark.parametrize(
    ("change", "back"),
    [
        (
            lambda: torch.set_default_dtype(torch.float64),
            lambda: torch.set_default_dtype(torch.float32),
        ),
        (
            lambda: torch.use_deterministic_algorithms(True),
            lambda: torch.use_deterministic_algorithms(False),
        ),
    ],
    ids=["default type", "determinism"],
)
def test_so_is_each_setting_of_pytorch(change, back):
    model, _ = pgmo.recompute(Attention(), Q, 1.0, measure=False)
    change()
    try:
        model(Q)
    finally:
        back()
    model(Q)
    assert len(model.forward.calls) == 2
