"""Optimizers inside the wrappers of accelerate, Lightning and others."""

from typing import Any


def unwrapped(optimizer: Any) -> Any:
    """Return the optimizer inside wrappers, which may lack an optimizer's hooks and state.

    Args:
        optimizer: an optimizer, or a wrapper with the attribute `optimizer`, such as accelerate's
            `AcceleratedOptimizer`.
    """
    from torch.optim import Optimizer

    inner = getattr(optimizer, "optimizer", None)
    return unwrapped(inner) if isinstance(inner, Optimizer) else optimizer
