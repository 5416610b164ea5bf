"""Allocations of optimizer state, reported to the CUDA adapter.

An optimizer usually allocates its state in its first step, when activations have just been freed.
The state lives to the end of the program. Among short-lived blocks, each tensor of the state would
keep a whole page in use. So optimizer state gets separate pages.

    step ──▶ hook: lasting ──▶ [closure: not lasting] ──▶ state, update ──▶ hook: not lasting
"""

from collections.abc import Callable
from functools import wraps
from typing import Any
from weakref import WeakSet

from pgmo.allocator.build.library import AdapterLibrary

_library: AdapterLibrary | None = None
_stepped: "WeakSet[Any]" = WeakSet()
_lasting = False


def report_optimizer_state(library: AdapterLibrary) -> None:
    """Report the first step of each optimizer without state to the adapter from now on.

    Blocks that a closure allocates within the step do not count as state.
    """
    from torch.optim.optimizer import (
        register_optimizer_step_post_hook,
        register_optimizer_step_pre_hook,
    )

    global _library
    if _library is None:
        _library = library
        register_optimizer_step_pre_hook(_before_step)
        register_optimizer_step_post_hook(_after_step)


def stepped() -> list[Any]:
    """Return the live optimizers that have stepped, outside compiled code, since reports began."""
    return list(_stepped)


def _expect_lasting(lasting: bool) -> None:
    """Set whether the next blocks are expected to live to the end of the program."""
    global _lasting
    assert _library is not None
    _lasting = lasting
    _library.ask("pgmo_expect_lasting", int(lasting))


def _before_step(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    import torch

    if torch.compiler.is_compiling():
        return None
    if _lasting:
        _expect_lasting(False)  # an earlier first step failed
    if optimizer in _stepped:
        return None
    _stepped.add(optimizer)
    if optimizer.state:
        return None  # the state was loaded from a checkpoint
    _, *positional = args
    if positional and callable(positional[0]):
        return (optimizer, _not_lasting(positional[0]), *positional[1:]), kwargs
    if callable(kwargs.get("closure")):
        return args, {**kwargs, "closure": _not_lasting(kwargs["closure"])}
    _expect_lasting(True)
    return None


def _not_lasting(closure: Callable[[], Any]) -> Callable[[], Any]:
    @wraps(closure)
    def computed() -> Any:
        _expect_lasting(False)
        loss = closure()
        _expect_lasting(True)
        return loss

    return computed


def _after_step(optimizer: Any, args: Any, kwargs: Any) -> None:
    import torch

    if not torch.compiler.is_compiling() and _lasting:
        _expect_lasting(False)
