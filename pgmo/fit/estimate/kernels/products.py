"""Products of matrices: the workspaces that cuBLAS is given.

Source: aten/src/ATen/cuda/CublasHandlePool.cpp of PyTorch 2.11.
"""

from typing import Any

import torch

from pgmo.fit.estimate.kernels.rule import Kernel, Rule

_aten = torch.ops.aten
_LT = 1 << 20
"""Bytes that cuBLASLt is given."""


def workspace(kernel: Kernel) -> int:
    """Bytes that cuBLAS is given: 32 MiB on Hopper, else 2 blocks of 4 MiB and 8 of 16 KiB."""
    return 32 << 20 if kernel.card.capability[0] == 9 else (4096 * 2 + 16 * 8) << 10


def _product(kernel: Kernel, _args: Any, _kwargs: Any, out: Any) -> None:
    kernel.ledger.born([out])
    kernel.once("cublas", workspace(kernel))


def _with_bias(kernel: Kernel, args: Any, kwargs: Any, out: Any) -> None:
    bias, left, right = args[:3]
    kernel.ledger.born([out])
    kernel.once("cublas", workspace(kernel))
    plain = kwargs.get("beta", 1) == 1 and bias.is_contiguous()
    if plain and bias.dim() == 1 and min(*left.shape, *right.shape) > 1:
        kernel.once("cublaslt", _LT)


RULES: dict[Any, Rule] = {
    _aten.mm.default: _product,
    _aten.bmm.default: _product,
    _aten.baddbmm.default: _product,
    _aten.addmm.default: _with_bias,
}
