"""Search of a thread's stack for modules, optimizers, and the line of the user's own code."""

import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from pgmo.profiler.importers.frames import Frame, Labels

if TYPE_CHECKING:
    from types import CodeType, FrameType

_PGMO = os.path.dirname(os.path.dirname(os.path.dirname(__file__))) + os.sep
"""Folder of the package, spelled as in code objects, with any ".." of `sys.path`."""

_STEP = "Optimizer.profile_hook_step.<locals>.wrapper"
"""Qualified name of the function in which PyTorch wraps the step of each optimizer class."""


class Running(NamedTuple):
    """Running modules, outermost first; the running optimizer's class and user's line, or ""."""

    modules: list[Any]
    optimizer: str
    line: str


class Calls:
    """Finder of module calls, optimizer steps and the user's own line in the caller's frames.

    The finder installs no hooks: compilers trace hooks, some libraries count them, and an exception
    skips them. A search takes a few microseconds.
    """

    def __init__(self) -> None:
        from torch import nn

        # Every module call runs this code, compiled or not.
        self._module_call = nn.Module._wrapped_call_impl.__code__
        self._own: dict[CodeType, bool] = {}
        self._lines: dict[tuple[CodeType, int], str] = {}

    def running(self) -> Running:
        """Return the calls that are running on this thread."""
        modules: list[Any] = []
        optimizer = line = ""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:  # A stack has only tens of frames.
            code = frame.f_code
            if code is self._module_call:
                modules.append(frame.f_locals["self"])
            elif code.co_qualname == _STEP and not optimizer:
                optimizer = type(frame.f_locals["args"][0]).__name__
            if not line and self._is_own(code):
                line = self._line(code, frame.f_lineno)
            frame = frame.f_back
        modules.reverse()
        return Running(modules, optimizer, line)

    def _is_own(self, code: "CodeType") -> bool:
        own = self._own.get(code)
        if own is None:
            frame = Frame(code.co_name, code.co_filename, 1)
            own = Labels((frame,)).facts(frame).own and not code.co_filename.startswith(_PGMO)
            self._own[code] = own
        return own

    def _line(self, code: "CodeType", number: int) -> str:
        line = self._lines.get((code, number))
        if line is None:
            frame = Frame(code.co_name, code.co_filename, number)
            line = self._lines[code, number] = Labels((frame,)).line(frame)
        return line
