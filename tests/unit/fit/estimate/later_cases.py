"""Cases that models showed which no rule was written with: what is turned, losses, sorting."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

Case = Callable[[], Any]


def _empty(*shape: int, grad: bool = True) -> Any:
    return torch.empty(*shape, device="cuda").requires_grad_(grad)


def _turned(make: Callable[[], nn.Module], *shape: int) -> Case:
    """What comes in, and the gradient that comes back, are views with other strides."""

    def run() -> None:
        module = make().to("cuda")
        x = _empty(*shape)
        out = module(x.transpose(1, -1))
        out.transpose(1, -1).backward(torch.empty_like(out.transpose(1, -1)).contiguous())

    return run


def _loss(function: Callable[..., Any], *, labels: bool = False, **options: Any) -> Case:
    def run() -> None:
        x = _empty(300, 500)
        target = torch.zeros(300, device="cuda").long() if labels else _empty(300, 500, grad=False)
        function(x, target, **options).backward()

    return run


def _forward(function: Callable[[Any], Any], *shape: int, dtype: Any = torch.float32) -> Case:
    def run() -> None:
        function(torch.zeros(*shape, device="cuda", dtype=dtype))

    return run


def _both(function: Callable[[Any], Any], *shape: int) -> Case:
    def run() -> None:
        out = function(_empty(*shape))
        out.backward(torch.empty_like(out))

    return run


def _losses() -> Iterator[tuple[str, Case]]:
    for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div"):
        for reduction in ("mean", "sum", "none"):
            if reduction != "none":
                yield f"{name} {reduction}", _loss(getattr(F, name), reduction=reduction)
    yield "binary cross entropy", _loss(F.binary_cross_entropy)
    yield "binary cross entropy of logits", _loss(F.binary_cross_entropy_with_logits)
    yield "likelihood", _loss(F.nll_loss, labels=True)


def _sorted() -> Iterator[tuple[str, Case]]:
    for count in (100, 1000, 5000, 70000):
        yield f"topk {count}", _forward(lambda x: x.topk(8), 30, count)
        yield f"sort {count}", _forward(lambda x: x.sort(), 30, count)
        yield f"sort one {count}", _forward(lambda x: x.sort(), count)
        yield f"sort stable {count}", _forward(lambda x: x.sort(stable=True), 30, count)
    yield "topk of columns", _forward(lambda x: x.topk(8, 0), 500, 30)
    yield "topk of long columns", _forward(lambda x: x.topk(8, 0), 70000, 30)
    for rows, count in ((1, 1 << 20), (4, 20000), (4, 19999), (500, 3000), (5000, 400)):
        yield f"topk {rows} of {count}", _forward(lambda x: x.topk(8), rows, count)
    for name in ("float16", "int64", "uint8"):
        dtype = getattr(torch, name)
        yield f"topk {name}", _forward(lambda x: x.topk(8), 4, 100000, dtype=dtype)
    for name in ("int64", "int32", "float16", "float64", "uint8"):
        for count in (4096, 5000, 70000):
            dtype = getattr(torch, name)
            yield f"sort {name} {count}", _forward(lambda x: x.sort(), count, dtype=dtype)
            yield f"sort {name} {count} rows", _forward(lambda x: x.sort(), 5, count, dtype=dtype)
    for rows in (127, 128, 300):
        yield f"sort {rows} rows", _forward(lambda x: x.sort(), rows, 5000)
    yield "sort of columns", _forward(lambda x: x.sort(0), 5000, 30)
    yield "cumulated few", _forward(lambda x: x.cumsum(0), 10)
    yield "cumulated many", _forward(lambda x: x.cumsum(0), 500_000)
    yield "cumulated many integers", _forward(lambda x: x.cumsum(0), 500_000, dtype=torch.int64)
    yield "cumulated", _forward(lambda x: x.cumsum(-1), 300, 500)
    yield "cumulated one", _forward(lambda x: x.cumsum(0), 70000)
    yield "cumulated integers", _forward(lambda x: x.cumsum(-1), 300, 500, dtype=torch.int64)
    yield "one hot", _forward(lambda x: F.one_hot(x, 8), 2000, dtype=torch.int64)


LATER: dict[str, Case] = {
    "layer norm turned": _turned(lambda: nn.LayerNorm(48), 4, 48, 100),
    "convolution turned": _turned(lambda: nn.Conv2d(8, 16, 3, padding=1), 2, 20, 20, 8),
    "depthwise turned": _turned(lambda: nn.Conv2d(8, 8, 3, padding=1, groups=8), 2, 20, 20, 8),
    "group norm turned": _turned(lambda: nn.GroupNorm(4, 24), 8, 30, 30, 24),
    "batch norm turned": _turned(lambda: nn.BatchNorm2d(24), 8, 30, 30, 24),
    "linear turned": _turned(lambda: nn.Linear(48, 64), 4, 48, 100),
    **dict(_losses()),
    **dict(_sorted()),
    "log of sums": _both(lambda x: x.logsumexp(-1), 300, 500),
    "selected": _both(lambda x: x.index_select(0, torch.zeros(40, device="cuda").long()), 300, 64),
    "repeated": _both(lambda x: x.repeat(2, 3), 300, 50),
    "rolled": _both(lambda x: x.roll(3, 1), 300, 50),
    "product of three": _both(lambda x: torch.einsum("bij,bkj->bik", x, x), 8, 60, 40),
    "cumulated and back": _both(lambda x: x.cumsum(-1), 300, 500),
    "normalised": _both(lambda x: F.normalize(x, dim=-1), 300, 500),
    "glu": _both(F.glu, 300, 500),
    "pooled for the largest": _both(lambda x: F.adaptive_max_pool2d(x, 4), 4, 8, 30, 30),
    "bicubic": _both(lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), 2, 4, 20, 20),
}
