"""Which modules and optimizers a thread is in calls of, from its stack of frames."""

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import FrameType

_STEP = "Optimizer.profile_hook_step.<locals>.wrapper"
"""What torch wraps the step of each class of optimizers in."""


class Calls:
    """Finds calls of modules and steps of optimizers among the caller's frames.

    It leaves nothing in the program: no hook that a compiler would trace, that a library would
    count, or that is missing when an exception passes. It takes some microseconds.
    """

    def __init__(self) -> None:
        from torch import nn

        # Each call passes it, compiled or not.
        self._module_call = nn.Module._wrapped_call_impl.__code__

    def running(self) -> tuple[list[Any], str]:
        """Return the modules whose calls this thread is in, the outermost first, and the optimizer.

        Returns:
            The modules, and the class of the optimizer in whose step this thread is; "" for none.
        """
        modules: list[Any] = []
        optimizer = ""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:  # a plain loop: a stack has tens of frames
            code = frame.f_code
            if code is self._module_call:
                modules.append(frame.f_locals["self"])
            elif code.co_qualname == _STEP and not optimizer:
                optimizer = type(frame.f_locals["args"][0]).__name__
            frame = frame.f_back
        modules.reverse()
        return modules, optimizer
