"""Small steps that run one operator each, forwards and backwards: on the stub, and estimated."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from tests.unit.fit.estimate.later_cases import LATER

Case = Callable[[], Any]
CASES: dict[str, Case] = {}


def _weights(*shape: int, dtype: torch.dtype = torch.float32) -> Any:
    return torch.empty(*shape, device="cuda", dtype=dtype).requires_grad_()


def _numbers(count: int, *shape: int) -> Any:
    return torch.zeros(*shape, device="cuda", dtype=torch.int64) % count


def _back(out: Any) -> None:
    out.backward(torch.empty_like(out))


def _attention(
    samples: int,
    heads: int,
    queries: int,
    keys: int,
    features: int,
    dtype: torch.dtype,
    *,
    mask: str = "",
    causal: bool = False,
    dropout: float = 0.0,
    groups: int = 0,
) -> Case:
    def run() -> None:
        q = _weights(samples, heads, queries, features, dtype=dtype)
        k, v = (_weights(samples, groups or heads, keys, features, dtype=dtype) for _ in "kv")
        shape = (samples, 1, queries, keys)
        bias = None
        if mask == "bool":
            bias = torch.ones(shape, device="cuda", dtype=torch.bool)
        elif mask:
            bias = torch.zeros(shape, device="cuda", dtype=dtype)
        out = F.scaled_dot_product_attention(
            q, k, v, bias, dropout, causal, enable_gqa=bool(groups)
        )
        _back(out)

    return run


def _attentions() -> Iterator[tuple[str, Case]]:
    types = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
    for features in (40, 64, 96, 160):
        for name, dtype in types.items():
            for q, k in ((197, 197), (100, 130), (1024, 1024)):
                yield (
                    f"attention {q}x{k} {features} {name}",
                    _attention(2, 3, q, k, features, dtype),
                )
                yield (
                    f"attention {q}x{k} {features} {name} masked",
                    _attention(2, 3, q, k, features, dtype, mask="bool"),
                )
    for name, dtype in types.items():
        yield f"attention causal {name}", _attention(2, 4, 128, 128, 64, dtype, causal=True)
        yield f"attention dropout {name}", _attention(2, 4, 128, 128, 64, dtype, dropout=0.1)
        if name != "float32":
            yield f"attention grouped {name}", _attention(2, 4, 128, 128, 64, dtype, groups=2)
        yield f"attention biased {name}", _attention(2, 4, 128, 128, 64, dtype, mask="float")
        yield f"attention odd {name}", _attention(2, 4, 99, 99, 36, dtype, mask="bool")


CASES.update(_attentions())


def _convolution(
    dims: int,
    inputs: int,
    outputs: int,
    kernel: int,
    size: int,
    *,
    bias: bool = True,
    first: bool = False,
    **options: Any,
) -> Case:
    def run() -> None:
        x = torch.empty(2, inputs, *(size,) * dims, device="cuda")
        if not first:
            x.requires_grad_()
        groups = options.get("groups", 1)
        shape = (outputs, inputs // groups)
        if options.get("transposed"):
            shape = (inputs, outputs // groups)
        more = {name: value for name, value in options.items() if name != "transposed"}
        transposed = "transpose" if options.get("transposed") else ""
        function = getattr(F, f"conv_{transposed}{dims}d" if transposed else f"conv{dims}d")
        w = _weights(*shape, *(kernel,) * dims)
        b = _weights(outputs) if bias else None
        _back(function(x, w, b, **more))

    return run


CASES.update(
    {
        "convolution 3x3": _convolution(2, 8, 16, 3, 20, padding=1),
        "convolution 3x3 first": _convolution(2, 8, 16, 3, 20, padding=1, first=True),
        "convolution 3x3 no bias": _convolution(2, 8, 16, 3, 20, padding=1, bias=False),
        "convolution 3x3 stride": _convolution(2, 8, 16, 3, 20, padding=1, stride=2),
        "convolution 1x1": _convolution(2, 8, 16, 1, 20),
        "convolution 1x1 stride": _convolution(2, 8, 16, 1, 20, stride=2, bias=False),
        "convolution 1d": _convolution(1, 8, 16, 3, 400, padding=1),
        "convolution 1d grouped": _convolution(1, 8, 16, 3, 400, padding=1, groups=2),
        "convolution 3d": _convolution(3, 4, 8, 3, 10, padding=1),
        "convolution grouped": _convolution(2, 8, 16, 3, 20, padding=1, groups=2),
        "convolution grouped 1x1": _convolution(2, 8, 16, 1, 20, groups=4, bias=False),
        "convolution depthwise": _convolution(2, 8, 8, 3, 20, padding=1, groups=8),
        "convolution depthwise no bias": _convolution(
            2, 8, 8, 3, 20, padding=1, groups=8, bias=False
        ),
        "convolution depthwise large": _convolution(2, 8, 8, 7, 20, padding=3, groups=8),
        "convolution depthwise wider": _convolution(2, 8, 16, 3, 20, padding=1, groups=8),
        "convolution dilated": _convolution(2, 8, 16, 3, 20, padding=2, dilation=2),
        "convolution transposed": _convolution(2, 8, 16, 2, 20, stride=2, transposed=True),
        "convolution transposed grouped": _convolution(
            2, 8, 16, 2, 20, stride=2, transposed=True, groups=2
        ),
    }
)


def _module(make: Callable[[], nn.Module], *shape: int) -> Case:
    def run() -> None:
        module = make().to("cuda")
        _back(module(_weights(*shape)))

    return run


CASES.update(
    {
        "layer norm": _module(lambda: nn.LayerNorm(192), 4, 100, 192),
        "layer norm wide": _module(lambda: nn.LayerNorm(2048), 64, 2048),
        "layer norm many": _module(lambda: nn.LayerNorm(64), 8, 3000, 64),
        "layer norm plain": _module(lambda: nn.LayerNorm(192, elementwise_affine=False), 400, 192),
        "rms norm": _module(lambda: nn.RMSNorm(192), 4, 100, 192),
        "batch norm": _module(lambda: nn.BatchNorm2d(24), 8, 24, 30, 30),
        "batch norm evaluated": _module(lambda: nn.BatchNorm2d(24).eval(), 8, 24, 30, 30),
        "group norm": _module(lambda: nn.GroupNorm(4, 24), 8, 24, 30, 30),
        "group norm ungrouped": _module(lambda: nn.GroupNorm(24, 24), 2, 24, 30, 30),
        "silu": _module(nn.SiLU, 100, 100),
        "mish": _module(nn.Mish, 100, 100),
        "hardswish": _module(nn.Hardswish, 100, 100),
        "softmax": _module(lambda: nn.Softmax(-1), 100, 300),
        "max pool": _module(lambda: nn.MaxPool2d(3, 2, 1), 4, 8, 40, 40),
        "average pool": _module(lambda: nn.AvgPool2d(2), 4, 8, 40, 40),
        "adaptive pool": _module(lambda: nn.AdaptiveAvgPool2d(1), 4, 8, 40, 40),
        "adaptive pool 7": _module(lambda: nn.AdaptiveAvgPool2d(7), 4, 8, 40, 40),
        "upsample": _module(lambda: nn.Upsample(scale_factor=2), 4, 8, 40, 40),
        "upsample bilinear": _module(
            lambda: nn.Upsample(scale_factor=2, mode="bilinear"), 4, 8, 40, 40
        ),
        "linear": _module(lambda: nn.Linear(300, 500), 700, 300),
        "dropout": _module(lambda: nn.Dropout(0.1), 100, 300),
        "pad": _module(lambda: nn.ReflectionPad2d(2), 4, 8, 40, 40),
    }
)


def _embedding(samples: int, words: int, width: int, padding: int | None = None) -> Case:
    def run() -> None:
        weights = _weights(words, width)
        _back(F.embedding(_numbers(words, samples), weights, padding))

    return run


def _step(make: Callable[[Any], torch.optim.Optimizer]) -> Case:
    def run() -> None:
        weights = [nn.Parameter(torch.empty(300, size, device="cuda")) for size in (40, 500, 7)]
        optimizer = make(weights)
        for _ in range(2):
            for one in weights:
                one.grad = torch.empty_like(one)
            optimizer.step()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)

    return run


def _backward(function: Callable[..., Any], *shapes: tuple[int, ...]) -> Case:
    def run() -> None:
        out = function(*(_weights(*shape) for shape in shapes))
        _back(out)

    return run


def _indexed() -> None:
    x = _weights(500, 64)
    _back(x[_numbers(500, 300)])


def _put() -> None:
    x = torch.empty(500, 64, device="cuda")
    x.index_add_(0, _numbers(500, 300), torch.empty(300, 64, device="cuda"))
    x.scatter_add_(0, _numbers(500, 300, 64), torch.empty(300, 64, device="cuda"))


def _reduced() -> None:
    for shape in ((1000, 768), (3000, 7), (64, 64, 64), (200000,), (8, 24, 30, 30), (4000, 1000)):
        for dtype in (torch.float32, torch.float16):
            x = torch.empty(shape, device="cuda", dtype=dtype)
            for dims in ((), *((at,) for at in range(len(shape)))):
                x.sum(dims)
                x.mean(dims)
            x.sum()
            x.amax()
            x.max()
            x.var()
            x.norm()
            x.argmax()
            (x > 0).any()
            (x > 0).sum()
            x.max(-1)
        if len(shape) == 4:
            y = torch.empty(shape, device="cuda").to(memory_format=torch.channels_last)
            y.sum((0, 2, 3))
            y.mean((2, 3))


def _cross_entropy(rows: int, classes: int, dtype: torch.dtype = torch.float32) -> Case:
    def run() -> None:
        F.cross_entropy(_weights(rows, classes, dtype=dtype), _numbers(classes, rows)).backward()

    return run


CASES.update(
    {
        "embedding": _embedding(700, 1000, 64),
        "embedding many": _embedding(5000, 1000, 64),
        "embedding padded": _embedding(700, 1000, 64, 0),
        "AdamW": _step(torch.optim.AdamW),
        "AdamW fused": _step(lambda w: torch.optim.AdamW(w, fused=True)),
        "AdamW loop": _step(lambda w: torch.optim.AdamW(w, foreach=False)),
        "SGD": _step(lambda w: torch.optim.SGD(w, 0.1, momentum=0.9)),
        "Adafactor": _step(torch.optim.Adafactor),
        "RMSprop": _step(torch.optim.RMSprop),
        "indexed": _indexed,
        "put": _put,
        "reduced": _reduced,
        "cross entropy": _cross_entropy(700, 5000),
        "cross entropy half": _cross_entropy(700, 5000, torch.float16),
        "two paths": _backward(lambda x: x * 3 + x * 4, (300, 300)),
        "two paths of views": _backward(lambda x: x.view(-1) * 3 + x.view(-1) * 4, (300, 300)),
        "concatenated": _backward(lambda x, y: torch.cat((x, y), 1), (300, 30), (300, 50)),
        "sliced": _backward(lambda x: x[:, :20] * x[:, 20:40], (300, 60)),
        "chunked": _backward(lambda x: torch.mul(*x.chunk(2, -1)), (300, 60)),
        "mean of squares": _backward(lambda x: x.pow(2).mean(-1, keepdim=True).rsqrt(), (300, 600)),
        "norm": _backward(lambda x: x.norm(dim=-1), (300, 600)),
        "masked": _backward(lambda x: x.masked_fill(x > 0, -1.0).softmax(-1), (300, 600)),
        "gathered": _backward(
            lambda x: x.gather(1, torch.zeros(300, 8, device="cuda", dtype=torch.int64)), (300, 60)
        ),
    }
)
CASES.update(LATER)
