"""Detection of hooks that pack tensors for the backward pass, for example by offloading."""

import sys
from typing import Any

import torch


def is_packing() -> bool:
    """Return whether this thread runs the pack hook of `torch.autograd.graph.saved_tensors_hooks`.

    A pack hook may copy saved tensors to the host. Only the backward pass uses these copies.
    """
    hooks: Any = torch._C._autograd._top_saved_tensors_default_hooks(True)
    if hooks is None:
        return False
    pack = getattr(hooks[0], "__func__", hooks[0])
    code = getattr(pack, "__code__", None)
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code is code:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False
