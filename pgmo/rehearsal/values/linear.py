"""Linear layers without the dispatch mode, which would change their requests.

Under a mode, PyTorch treats every tensor as a subclass. So PyTorch allocates the sum with the bias,
instead of adding in place, if the input of a linear layer is not contiguous, as in attention.

Source: `linear` in aten/src/ATen/native/Linear.cpp.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any

import torch
from torch.jit import _builtins
from torch.nn import functional

from pgmo.error_frames import clears_frames
from pgmo.rehearsal.values import mode_stack

_PLAIN = (torch.Tensor, torch.nn.Parameter, type(None))


def keep_linear_plain(without_mode: Callable[[], AbstractContextManager[None]]) -> None:
    """Disable the mode in `torch.nn.functional.linear`, whose results stay unknown.

    The mode stays enabled if the script has modes or passes tensor subclasses. Modes and subclasses
    of the script cause the same requests, and their code may read values.

    Args:
        without_mode: returns a context without the mode.
    """
    original: Any = functional.linear

    @clears_frames
    @wraps(original)
    def linear(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling() or not _is_plain(*args, *kwargs.values()):
            return original(*args, **kwargs)
        with without_mode():
            return original(*args, **kwargs)

    # Pickles name the function in `_nn`, and torch passes this function to `__torch_function__`,
    # where a script compares it with `torch.nn.functional.linear`.
    modules: tuple[Any, ...] = (functional, torch._C._nn)
    for module in modules:
        module.linear = linear
    _builtins._register_builtin(linear, "aten::linear")


def _is_plain(*args: Any) -> bool:
    """Return whether PyTorch itself runs an operator, without code of the script."""
    return len(mode_stack.stack()) == 1 and all(type(one) in _PLAIN for one in args)
