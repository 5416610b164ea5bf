"""Roots of the search: local variables of running functions, and variables of modules.

Variables of libraries are separate, because variables of the program's own code are searched first.
"""

import inspect
import os
import sys
import sysconfig
from collections.abc import Iterator
from types import FrameType, ModuleType

from pgmo.runner.keepers.parts import Part, may_keep, place_of
from pgmo.runner.keepers.place import Place, function_scope

_OWN_PACKAGE = __name__.partition(".")[0]
_OURS = os.path.dirname(os.path.abspath(sys.modules[_OWN_PACKAGE].__file__ or "")) + os.sep
_LIBRARIES = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "purelib", "platlib")})

_OF_IMPORTS = frozenset({"__loader__", "__spec__"})
"""Variables of a module that belong to the import system. Under pytest they lead to all tests."""

_MOST_ERRORS = 16
"""Maximum number of errors to search in a chain of causes. Frames of further errors are skipped."""

_READS_LOCALS = frozenset({"locals", "vars", "dir", "eval", "exec"})
"""Functions that return a frame's dictionary of local variables, or read it.

Before Python 3.13 a frame has only one dictionary of local variables. Reading the variables here
would change the program's dictionary. So functions that use one of these names are left out.
"""

_KEEPS_SNAPSHOT = sys.version_info < (3, 13)
"""Whether a frame keeps the dictionary from `f_locals`, and so the values in it, alive."""

_REFERENCES = 3
"""Number of references to `f_locals` from the frame, a variable and a call. If there are more, the
program uses the dictionary, too."""


def of_functions(error: BaseException | None, *, of_libraries: bool) -> Iterator[Part]:
    """Yield the variables of running functions, and of an error's functions.

    Args:
        error: an error whose traceback keeps frames alive; None for none.
        of_libraries: whether to yield the variables of libraries instead of the program's own.
    """
    seen: set[int] = set()
    for frame in (*_running(), *_of_error(error)):
        if id(frame) not in seen and _is_library(frame.f_code.co_filename) == of_libraries:
            seen.add(id(frame))
            yield from _locals_of(frame)


def of_modules(*, of_libraries: bool) -> Iterator[Part]:
    """Yield the variables of modules: of libraries, or of the program's own."""
    for name, module in _modules():
        # Modules without a file are built into the interpreter.
        file = module.__dict__.get("__file__")
        if (not isinstance(file, str) or _is_library(file)) == of_libraries:
            yield from _globals_of(name, module)


def _modules() -> list[tuple[str, ModuleType]]:
    """Return the imported modules by name, without those of pgmo."""
    return [
        (name, module)
        for name, module in list(sys.modules.items())
        if type(module) is ModuleType and name.partition(".")[0] != _OWN_PACKAGE
    ]


def _running() -> list[FrameType]:
    """Return the frames of running functions of all threads, without the frames of this search.

    If a variable of the search held a frame of the search, this would be a reference cycle.
    """
    found: list[FrameType] = []
    for first in sys._current_frames().values():
        frame: FrameType | None = first
        while frame is not None:
            if not frame.f_code.co_filename.startswith(_OURS):
                found.append(frame)
            frame = frame.f_back
    del first
    return found


def _of_error(error: BaseException | None) -> Iterator[FrameType]:
    for _ in range(_MOST_ERRORS):
        if error is None:
            return
        trace = error.__traceback__
        while trace is not None:
            yield trace.tb_frame
            trace = trace.tb_next
        error = error.__cause__ or error.__context__


def _locals_of(frame: FrameType) -> Iterator[Part]:
    code = frame.f_code
    if not code.co_flags & inspect.CO_OPTIMIZED:
        return  # The frame of a module or class body, whose variables are not local.
    if _KEEPS_SNAPSHOT and not _READS_LOCALS.isdisjoint(code.co_names):
        return
    scope = function_scope(code.co_qualname.replace(".<locals>", ""))
    snapshot = frame.f_locals
    found = list(snapshot.items())
    if _KEEPS_SNAPSHOT and sys.getrefcount(snapshot) <= _REFERENCES:
        snapshot.clear()
    for name, value in found:
        if may_keep(value):
            yield Part(value, place_of(value, scope, f".{name}"))


def _globals_of(name: str, module: ModuleType) -> Iterator[Part]:
    file = module.__dict__.get("__file__")
    if name == "__main__" and isinstance(file, str):
        name = os.path.splitext(os.path.basename(file))[0]
    scope = Place(None, name, splits=True)
    for variable, value in list(module.__dict__.items()):
        if variable in _OF_IMPORTS:
            continue
        if may_keep(value):
            yield Part(value, place_of(value, scope, f".{variable}"))
        if type(value) is type and vars(value).get("__module__") == module.__name__:
            for attribute, one in list(vars(value).items()):
                if may_keep(one):
                    yield Part(one, place_of(one, scope, f".{variable}.{attribute}"))


def _is_library(file: str) -> bool:
    path = os.path.abspath(file)
    return path.startswith((_OURS, *_LIBRARIES)) or file.startswith("<frozen ")
