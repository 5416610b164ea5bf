"""Notification of the CUDA adapter when optimizer state is allocated.

An optimizer allocates its state in its first step, when activations have just been freed. The state
lives to the end of the program. Among short-lived blocks, each tensor of the state would keep a
whole page in use. So optimizer state gets separate pages.

    step ──▶ hook: lasting ──▶ [closure: not lasting] ──▶ state, update ──▶ hook: not lasting
"""

from collections.abc import Callable
from functools import wraps
from typing import Any
from weakref import WeakSet

_callbacks: list[Callable[[bool], object]] = []
_stepped: "WeakSet[Any]" = WeakSet()
_lasting = False


def on_optimizer_state(callback: Callable[[bool], object]) -> None:
    """Register a callback for the first step of each torch optimizer, unless it is registered.

    The callback is called with True before the state is allocated and with False afterwards. Blocks
    that a closure allocates within the step do not count as state.
    """
    from torch.optim.optimizer import (
        register_optimizer_step_post_hook,
        register_optimizer_step_pre_hook,
    )

    if not _callbacks:
        register_optimizer_step_pre_hook(_before_step)
        register_optimizer_step_post_hook(_after_step)
    if callback not in _callbacks:
        _callbacks.append(callback)


def stepped() -> list[Any]:
    """Return the live optimizers that have stepped since `on_optimizer_state` was first called."""
    return list(_stepped)


def _notify(lasting: bool) -> None:
    global _lasting
    _lasting = lasting
    for callback in _callbacks:
        callback(lasting)


def _before_step(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    import torch

    if torch.compiler.is_compiling():
        return None
    if _lasting:
        _notify(False)  # an earlier first step failed
    if optimizer in _stepped:
        return None
    _stepped.add(optimizer)
    if optimizer.state:
        return None  # the state was loaded from a checkpoint
    _, *positional = args
    if positional and callable(positional[0]):
        return (optimizer, _without_notification(positional[0]), *positional[1:]), kwargs
    if callable(kwargs.get("closure")):
        return args, {**kwargs, "closure": _without_notification(kwargs["closure"])}
    _notify(True)
    return None


def _without_notification(closure: Callable[[], Any]) -> Callable[[], Any]:
    @wraps(closure)
    def computed() -> Any:
        _notify(False)
        loss = closure()
        _notify(True)
        return loss

    return computed


def _after_step(optimizer: Any, args: Any, kwargs: Any) -> None:
    import torch

    if not torch.compiler.is_compiling() and _lasting:
        _notify(False)
