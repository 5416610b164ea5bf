"""Printing of tensors on a card, for which PyTorch would run kernels without the dispatch mode."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor

from pgmo.rehearsal.values.known import on_host, readable

_INDENT = len("tensor(")


def print_from_host(filled: Callable[[Tensor], object]) -> None:
    """Make PyTorch print tensors on a card from host memory. `filled` makes up missing values."""
    from torch import _tensor_str

    module: Any = _tensor_str
    original = module._str

    @wraps(original)
    def shown(self: Tensor, *, tensor_contents: Any = None) -> Any:
        plain = type(self).__torch_dispatch__ is Tensor.__torch_dispatch__
        if plain and tensor_contents is None and self.is_cuda and readable(self) and self.numel():
            filled(self)
            with torch.no_grad():
                tensor_contents = module._tensor_str(on_host(self), _INDENT)
        return original(self, tensor_contents=tensor_contents)

    module._str = shown
