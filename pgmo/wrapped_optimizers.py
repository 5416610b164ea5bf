"""Optimizers inside the wrappers of accelerate, Lightning and others."""

from typing import Any


def unwrapped(optimizer: Any) -> Any:
    """Return the optimizer inside wrappers such as accelerate's; other optimizers are unchanged.

    A wrapper has the inner optimizer as its attribute `optimizer`, and may lack an optimizer's
    hooks and state.
    """
    from torch.optim import Optimizer

    inner = getattr(optimizer, "optimizer", None)
    return unwrapped(inner) if isinstance(inner, Optimizer) else optimizer
