"""Linear layers without the dispatch mode, which would change their requests.

Under a mode, PyTorch treats every tensor as a subclass. If the input of a linear layer is not
contiguous, as in attention, the sum with the bias is then allocated instead of added in place.

Source: `linear` in aten/src/ATen/native/Linear.cpp.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any

import torch
from torch.nn import functional

from pgmo.error_frames import clears_frames


def keep_linear_plain(without_mode: Callable[[], AbstractContextManager[None]]) -> None:
    """Disable the mode in `torch.nn.functional.linear`, whose results depend on no known values.

    Args:
        without_mode: returns a context without the mode.
    """
    module: Any = functional
    original = module.linear

    @clears_frames
    @wraps(original)
    def linear(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return original(*args, **kwargs)
        with without_mode():
            return original(*args, **kwargs)

    module.linear = linear
