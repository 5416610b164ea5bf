"""Attribution of allocations in compiled code to inductor's kernels while a listener exists.

Inductor turns a graph into a Python module whose function `call` requests buffers and runs kernels
one by one. Compiled code has no operators to observe, and a mode or hook inside it would be
compiled, too. But `call` is ordinary Python code, which is not compiled again. While a listener is
registered, `call` has another code object, with calls of `KernelMarks` between the same statements
(see `generated_code`). Afterwards `call` gets its original code back, so other iterations are not
slowed down.

    call.__code__:    plain    marked    plain    plain ...
                               listened

A function whose code differs from its file is not changed.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import NamedTuple, Protocol

from pgmo.locks import new_reentrant_lock
from pgmo.profiler.importers.frames import Frame, Labels
from pgmo.profiler.tagging import dynamo
from pgmo.profiler.tagging.generated_code import (
    MARKS,
    GeneratedKernel,
    MarkedCode,
    mark,
    runs_kernels,
)

_CODE_CACHE = "torch._inductor.codecache"


class KernelOrigin(NamedTuple):
    """Name of an inductor kernel, such as "extern_kernels.mm", with file and stack as in `Tag`."""

    name: str
    file: str = ""
    stack: tuple[str, ...] = ()


class KernelListener(Protocol):
    """Callbacks around generated kernels, on the thread that runs them. They must not raise."""

    def kernels_begin(self) -> None:
        """Handle the call of a function that runs kernels."""

    def kernel(self, origin: KernelOrigin) -> None:
        """Attribute the following requests to this kernel."""

    def kernels_end(self) -> None:
        """Handle the end of the function."""


_listeners: list[KernelListener] = []
_lock = new_reentrant_lock()
# Functions, each with its plain and its marked code.
_marked: list[tuple[FunctionType, CodeType, CodeType]] = []


def listen(listener: KernelListener) -> Callable[[], None]:
    """Register a listener for all code compiled so far, until the returned function is called."""

    def leave() -> None:
        with _lock:
            _listeners.remove(listener)
            if _listeners:
                return
            while _marked:
                function, plain, marked = _marked.pop()
                if function.__code__ is marked:
                    function.__code__ = plain

    with _lock:
        _listeners.append(listener)
        try:
            for module in _generated_modules():
                _mark_module(module)
        except BaseException:  # Ctrl-C, too: the caller gets no function to remove the marks.
            leave()
            raise
    return leave


class KernelMarks:
    """Callbacks of marked code, which stay in the module: a call may outlive its listeners."""

    def __init__(self, origins: tuple[KernelOrigin, ...]) -> None:
        self._origins = origins

    def begin(self) -> None:
        """Notify the listeners that the function begins."""
        for listener in tuple(_listeners):
            dynamo.call_observer(listener.kernels_begin)

    def at(self, number: int) -> None:
        """Notify the listeners that the next request is for the kernel with this number."""
        for listener in tuple(_listeners):
            dynamo.call_observer(partial(listener.kernel, self._origins[number]))

    def end(self) -> None:
        """Notify the listeners that the function ends."""
        for listener in tuple(_listeners):
            dynamo.call_observer(listener.kernels_end)


def _generated_modules() -> list[ModuleType]:
    cache = getattr(sys.modules.get(_CODE_CACHE), "PyCodeCache", None)
    modules = getattr(cache, "modules", ())
    return [one for one in tuple(modules) if isinstance(one, ModuleType)]


def _mark_module(module: ModuleType) -> None:
    path = str(getattr(module, "__file__", ""))
    functions = list(_functions(module))
    made = _marked_code(path) if functions else None
    if made is None:
        return
    if MARKS not in vars(module):
        setattr(module, MARKS, KernelMarks(tuple(_origin(path, kernel) for kernel in made.kernels)))
    for function in functions:
        name, code = function.__code__.co_qualname, function.__code__
        if name in made.plain and code == made.plain[name]:
            _marked.append((function, code, made.marked[name]))
            function.__code__ = made.marked[name]
            dynamo.skip(function)


def _functions(module: ModuleType) -> Iterator[FunctionType]:
    """Yield the functions that run kernels, of the module or of its classes."""
    values = list(vars(module).values())
    for value in tuple(values):
        if isinstance(value, type) and value.__module__ == module.__name__:
            values += vars(value).values()
    for value in values:
        if isinstance(value, FunctionType) and runs_kernels(value.__name__):
            yield value


@lru_cache(maxsize=256)
def _marked_code(path: str) -> MarkedCode | None:
    with contextlib.suppress(OSError, SyntaxError, ValueError, RecursionError):
        return mark(Path(path).read_text(), path)
    return None


def _origin(path: str, kernel: GeneratedKernel) -> KernelOrigin:
    """Return a kernel's origin from the Python stacks that inductor keeps for profilers."""
    cache = sys.modules[_CODE_CACHE].PyCodeCache
    try:
        calls = cache.stack_frames_for_code(path, kernel.line) or ()
        frames = [Frame(one["name"], one["filename"], one["line"]) for one in calls]
    except (AttributeError, KeyError, TypeError, ValueError):
        return KernelOrigin(kernel.name)
    labels = Labels(frames)
    lines = tuple(labels.line(frame) for frame in frames)
    file = next((labels.line(one) for one in frames if labels.facts(one).own), "")
    return KernelOrigin(kernel.name, file, lines)
