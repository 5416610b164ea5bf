"""Tells which kernel of inductor's asks for memory, in the iteration in which somebody listens.

Inductor leaves a graph as a module of Python, whose function `call` requests buffers and runs
kernels one by one. Compiled code has no operators to watch, and must not be watched from within: a
mode or a hook there would be part of what is compiled. But that function is ordinary Python, which
no compiler looks at any more. So as long as somebody listens it has another code object, of the
same statements with calls of `KernelMarks` between them (see `generated_code`), and afterwards its
own again. In all other iterations there is nothing that could cost anything.

    call.__code__:    plain    marked    plain    plain ...
                               listened

A function is left alone whose code is not what its file says.
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
    """Where a kernel of inductor's comes from.

    Args:
        name: inductor's, such as "triton_poi_fused_gelu_0", "extern_kernels.mm" or "pool0".
        file: the innermost line of the user's own code, as in `Tag`; "" if it is not known.
        stack: the lines, innermost first, as in `Tag`.
    """

    name: str
    file: str = ""
    stack: tuple[str, ...] = ()


class KernelListener(Protocol):
    """Callbacks around generated kernels, on the thread that runs them. They must not raise."""

    def kernels_begin(self) -> None:
        """A function that runs kernels has been called."""

    def kernel(self, origin: KernelOrigin) -> None:
        """What is requested from now on is for this kernel."""

    def kernels_end(self) -> None:
        """The function is left."""


_listeners: list[KernelListener] = []
_lock = new_reentrant_lock()
_marked: list[tuple[FunctionType, CodeType, CodeType]] = []  # with its own code, and ours


def listen(listener: KernelListener) -> Callable[[], None]:
    """Tells the listener from now on of what has been compiled so far.

    Returns:
        What to call, on any thread, to tell it no more.

    Example:
        >>> leave = listen(tagger)  # doctest: +SKIP
    """

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
        except BaseException:  # Ctrl-C, say: nobody else could take the marks away again
            leave()
            raise
    return leave


class KernelMarks:
    """Callbacks of marked code. They stay in the module: a call may outlast its listeners."""

    def __init__(self, origins: tuple[KernelOrigin, ...]) -> None:
        self._origins = origins

    def begin(self) -> None:
        """The function begins."""
        for listener in tuple(_listeners):
            dynamo.tell(listener.kernels_begin)

    def at(self, number: int) -> None:
        """The next request is for the kernel of this number."""
        for listener in tuple(_listeners):
            dynamo.tell(partial(listener.kernel, self._origins[number]))

    def end(self) -> None:
        """The function ends."""
        for listener in tuple(_listeners):
            dynamo.tell(listener.kernels_end)


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
    """Those that run kernels: of the module, or methods of its class."""
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
    """Inductor keeps, for profilers, the lines of Python that each line of its code is made of."""
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
