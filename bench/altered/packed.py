"""Frozen weights in 8 and 4 bits, stored as bitsandbytes stores them.

    8 bits   one byte per element, one float32 scale per row
    4 bits   two elements per byte, one float32 scale per block of 64

Only the sizes are right: nothing computes on the stub. Each product converts the weight, in the
forward and in the backward pass, and does not keep the converted weight.
"""

from typing import Any

import torch
from torch import Tensor, nn

BLOCK = 64
"""Number of elements that share a scale in 4 bits. The scales are not quantised again."""


class Packed(nn.Module):
    """A linear layer whose weight is frozen and packed.

    Args:
        layer: layer whose weight and bias are used.
        bits: 8 or 4.
        turned: whether the weight's shape is (inputs, outputs) instead of (outputs, inputs).
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
        """Return the output of the layer for a batch of rows."""
        out = _Product.apply(x, self)
        return out if self.bias is None else out + self.bias

    def converted(self) -> Tensor:
        """Return a tensor of an unpacked weight's size, uninitialized, shape (outputs, inputs)."""
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
    """Pack the weights of all layers that have LoRA adapters."""
    for one in list(model.modules()):
        layer = getattr(one, "base_layer", None)
        if layer is not None:
            one.base_layer = Packed(layer, bits, turned=not isinstance(layer, nn.Linear))
