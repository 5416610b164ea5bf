"""Which modules and optimizers a thread is in calls of, from its stack of frames."""

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

_STEP = "Optimizer.profile_hook_step.<locals>.wrapper"
"""What torch wraps the step of each class of optimizers in."""


class Calls:
    """Finds calls of modules and steps of optimizers among the caller's frames.

    It leaves nothing in the program: no hook that a compiler would trace, that a library would
    count, or that is missing when an exception passes. It takes some microseconds.

    Example:
        >>> class Net(nn.Module):  # doctest: +SKIP
        ...     def forward(self, x):
        ...         return Calls().modules()
        >>> Net()(1)  # doctest: +SKIP
        [Net()]
    """

    def __init__(self) -> None:
        from torch import nn

        # A call passes the first, and then the second unless it is compiled.
        self._module_calls = frozenset(
            function.__code__ for function in (nn.Module._wrapped_call_impl, nn.Module._call_impl)
        )

    def modules(self) -> list[Any]:
        """The modules whose calls this thread is in, the outermost first."""
        found: list[Any] = []
        for frame in _frames():
            if frame.f_code in self._module_calls:
                module = frame.f_locals["self"]
                if not found or found[-1] is not module:
                    found.append(module)
        return found[::-1]

    def optimizer(self) -> str:
        """The class of the optimizer in whose step this thread is; "" for none."""
        for frame in _frames():
            if frame.f_code.co_qualname == _STEP:
                return type(frame.f_locals["args"][0]).__name__
        return ""


def _frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        yield frame
        frame = frame.f_back
