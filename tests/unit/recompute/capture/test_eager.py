"""Tests of bits with operators that decompose in Python, layouts, and the order of sums."""

import copy

import pytest
import torch
from torch import nn
from torch._dispatch.python import enable_python_dispatcher
from torch.fx.experimental import proxy_tensor
from torch.nn import functional

import pgmo
from pgmo.recompute.capture.eager import as_in_eager_mode, with_grouped_products
from tests.unit.recompute.steps import same, step


class Upsampled(nn.Module):
    def __init__(self, mode):
        super().__init__()
        self.mode = mode
        self.first, self.last = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 1)

    def forward(self, x):
        x = self.first(x).to(memory_format=torch.channels_last)
        x = functional.interpolate(x, scale_factor=2, mode=self.mode)
        return self.last(x).tanh().square().mean()


class Tied(nn.Module):
    """A model with a weight that is read three times, so that its gradient is an ordered sum."""

    def __init__(self):
        super().__init__()
        self.encode, self.decode = nn.Embedding(64, 32), nn.Embedding(64, 32)
        self.head = nn.Linear(32, 64, bias=False)
        self.decode.weight = self.head.weight = self.encode.weight

    def forward(self, x):
        hidden = self.encode(x).tanh().mean(1, keepdim=True) + self.decode(x)
        return functional.cross_entropy(self.head(hidden.tanh()).flatten(0, 1), x.flatten())


class Contrasts(nn.Module):
    """A model that returns its loss and its logits, as they are and transposed."""

    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(16, 16), nn.Linear(16, 16)
        self.scale = nn.Parameter(torch.tensor(1.3))

    def forward(self, x):
        logits = self.one(x) @ self.other(x).t() * self.scale.exp()
        target = torch.arange(len(x))
        loss = functional.cross_entropy(logits, target)
        loss = loss + functional.cross_entropy(logits.t(), target)
        return loss, logits, logits.t()


@pytest.mark.parametrize(
    ("build", "shape"),
    [
        (lambda: Upsampled("nearest"), (2, 3, 16, 16)),
        (lambda: Upsampled("bilinear"), (2, 3, 16, 16)),
        (lambda: Upsampled("bicubic"), (2, 3, 16, 16)),
        (Tied, None),
        (Contrasts, (24, 16)),
    ],
)
def test_the_same_bits(build, shape):
    torch.manual_seed(0)
    plain = build()
    inputs = [torch.randint(64, (4, 16)) if shape is None else torch.randn(shape) for _ in range(6)]
    model, _ = pgmo.recompute(copy.deepcopy(plain), inputs[0], budget="min", measure=False)
    assert all(same(step(model, one), step(plain, one)) for one in inputs)


def test_replaced_kernels_are_restored():
    key = torch._C.DispatchKey.Autograd
    operator = torch.ops.aten.upsample_bilinear2d.vec
    before = dict(operator.py_kernels), proxy_tensor.TorchFunctionMetadataMode
    with as_in_eager_mode():
        assert key not in operator.py_kernels
    assert (operator.py_kernels, proxy_tensor.TorchFunctionMetadataMode) == before


def test_dropout_of_nothing_copies_nothing():
    layers = [nn.Linear(16, 16), nn.Dropout(0.0), nn.Tanh(), nn.Linear(16, 1)]
    _, plan = pgmo.recompute(nn.Sequential(*layers), torch.ones(4, 16), measure=False)
    assert not [one for one in plan.graph.operations if "clone" in one.name]


@pytest.mark.parametrize(("drop", "kind"), [(0.1, "bfloat16"), (0.15, "float32"), (0.5, "float32")])
def test_dropout_rounds_as_on_a_cpu(drop, kind):
    """Dropout on a CPU divides by 1 - p in the type of its input, unlike the fused kernel."""
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(32, 32), nn.GELU(), nn.Dropout(drop)) for _ in range(3)]
    plain = nn.Sequential(*layers).to(getattr(torch, kind))
    batch = torch.randn(512, 32, dtype=getattr(torch, kind))
    model, plan = pgmo.recompute(copy.deepcopy(plain), (batch,), measure=False)
    assert plan.recomputed
    assert same(step(model, batch), step(plain, batch))


class Doubled(torch.autograd.Function):
    """A copy whose backward pass calls a function that a program may replace."""

    @staticmethod
    def forward(_ctx, x):
        return x.clone()

    @staticmethod
    def backward(_ctx, gradient):
        return functional.hardtanh(gradient.unsqueeze(0).squeeze(0), -9.0, 9.0)


class Ordinary(nn.Module):
    """A model with functions, methods and operators of PyTorch in both passes."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 8)
        self.dropout, self.norm = nn.Dropout(0.25), nn.LayerNorm(8)

    def forward(self, x):
        x = self.norm(functional.gelu(self.first(x)))
        x = Doubled.apply(self.last(self.dropout(x))).clamp(-2.0, 2.0)
        return torch.matmul(x, x.t()).square().mean()


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (functional, "dropout"),
        (functional, "gelu"),
        (functional, "linear"),
        (functional, "layer_norm"),
        (functional, "hardtanh"),
        (torch.Tensor, "clamp"),
        (torch.Tensor, "unsqueeze"),
        (torch, "matmul"),
    ],
)
def test_a_wrapper_in_the_place_of_a_function_of_torch_runs_once(monkeypatch, owner, name):
    original = getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda *one, **more: original(*one, **more) * 1.5)
    torch.manual_seed(0)
    plain, x = Ordinary(), torch.randn(4, 8)
    model, _ = pgmo.recompute(copy.deepcopy(plain), x, budget="min", measure=False)
    assert same(step(model, x), step(plain, x))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_grouped_products_have_a_shape_in_all_dtypes(dtype):
    first = torch.empty(4, 8, 16, dtype=dtype, device="meta")
    second = torch.empty(4, 16, 24, dtype=dtype, device="meta")
    with enable_python_dispatcher(), with_grouped_products():
        made = torch.ops.aten._grouped_mm(first, second)
    assert (made.shape, made.dtype) == ((4, 8, 24), dtype)
