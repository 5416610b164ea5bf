"""Search of a thread's stack for the modules and optimizers whose calls are running."""

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import FrameType

_STEP = "Optimizer.profile_hook_step.<locals>.wrapper"
"""Qualified name of the function in which torch wraps the step of each optimizer class."""


class Calls:
    """Finder of module calls and optimizer steps in the caller's frames.

    It installs no hook, which a compiler would trace, a library would count, and an exception would
    skip. A search takes some microseconds.
    """

    def __init__(self) -> None:
        from torch import nn

        # Every module call runs this code, compiled or not.
        self._module_call = nn.Module._wrapped_call_impl.__code__

    def running(self) -> tuple[list[Any], str]:
        """Return the modules and the optimizer whose calls are running on this thread.

        Returns:
            The modules, outermost first, and the class name of the optimizer; "" for none.
        """
        modules: list[Any] = []
        optimizer = ""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:  # A stack has only tens of frames.
            code = frame.f_code
            if code is self._module_call:
                modules.append(frame.f_locals["self"])
            elif code.co_qualname == _STEP and not optimizer:
                optimizer = type(frame.f_locals["args"][0]).__name__
            frame = frame.f_back
        modules.reverse()
        return modules, optimizer
