"""Frozen weights in 8 and 4 bits, stored as bitsandbytes stores them.

    8 bits   one byte for each element, a scale in single precision for each row
    4 bits   two elements in a byte, a scale in single precision for each block of 64

Sizes are what counts here: nothing computes on the stub. Each product has the weight converted
for it, forwards and backwards, and keeps none.
"""

from typing import Any

import torch
from torch import Tensor, nn

BLOCK = 64
"""Elements of a block, which share a scale in 4 bits. Scales are not quantised once more."""


class Packed(nn.Module):
    """A linear layer whose weight is frozen and packed.

    Args:
        layer: whose weight and bias it takes.
        bits: 8 or 4.
        turned: whether the weight is stored as (inputs, outputs).
    """

    def __init__(self, layer: Any, bits: int, *, turned: bool) -> None:
        super().__init__()
        weight = layer.weight.detach()
        self.shape, self.dtype, self.turned = weight.shape, weight.dtype, turned
        scales = len(weight) if bits == 8 else -(-weight.numel() // BLOCK)
        self.register_buffer("codes", torch.zeros(weight.numel() * bits // 8, dtype=torch.uint8))
        self.register_buffer("scales", torch.ones(scales))
        self.bias = layer.bias

    def forward(self, x: Tensor) -> Tensor:
        """Of a batch of rows."""
        out = _Product.apply(x, self)
        return out if self.bias is None else out + self.bias

    def converted(self) -> Tensor:
        """The weight as a product takes it: (outputs, inputs)."""
        weight = torch.empty(self.shape, dtype=self.dtype, device=self.codes.device)
        return weight.t() if self.turned else weight


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, layer: Packed) -> Tensor:
        ctx.layer = layer
        return nn.functional.linear(x, layer.converted())

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return grad @ ctx.layer.converted(), None


def pack(model: nn.Module, bits: int) -> None:
    """Packs the weights that have adapters."""
    for one in list(model.modules()):
        layer = getattr(one, "base_layer", None)
        if layer is not None:
            one.base_layer = Packed(layer, bits, turned=not isinstance(layer, nn.Linear))
