"""Clears what frames hold once an error has left them.

    train.py        loss.backward()
    pgmo            dispatch(mode, func, ...)     <- clears its own names, and the frames below
    torch           OpOverload.__call__(args)        cleared
    train.py        Function.backward(ctx, ...)      untouched: it is there without pgmo, too
    torch           OpOverload.__call__(args)        cleared

A traceback holds the frames that an error has left, and a frame holds its arguments. Whoever keeps
the error keeps those tensors alive: after an `OutOfMemoryError` in a backward pass autograd's
device thread does so until it gets the GIL, when the program may already try a smaller batch.
Lines and names in the traceback stay.
"""

import ctypes
import functools
import inspect
import sys
import weakref
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, ParamSpec, TypeVar

from pgmo import _core

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_DISPATCH = "__torch_dispatch__"

_PACKAGES = ("pgmo", "torch")
_GENERATED = "<eval_with_key>"
"""Beginning of the file name of code that torch.fx has generated."""

_SUSPENDABLE = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
"""Code flags of generators and coroutines. Clearing a suspended frame would close it."""

_DEEPEST = 16
"""Length of the chain of causes that is cleared."""

_CLEARS = "_pgmo_clears_frames"
"""Attribute of the classes that `clear_backward_frames` has changed."""

held: ctypes.c_int64 = vars(_core).setdefault("_held_errors", ctypes.c_int64(0))
"""Number of out-of-memory errors that were cleared and that somebody still holds.

An allocator that runs out of memory reads it at its address, without the GIL. The native module
keeps it alive if Python forgets this one.
"""

_holders: dict[int, weakref.ref[BaseException]] = {}
"""The errors that `held` counts, by their ids."""


def clear_frames(error: BaseException) -> None:
    """Clear the frames of pgmo and PyTorch that an error has left.

    Call it where the error leaves pgmo. The calling frame still runs, so it has to delete its own
    arguments afterwards, and to raise the error again.

    Args:
        error: the error that is being handled.

    Example:
        >>> def run(function, *args):
        ...     try:
        ...         return function(*args)
        ...     except BaseException as error:
        ...         clear_frames(error)
        ...         del args
        ...         raise
        >>> run(abs, -1)
        1
    """
    one: BaseException | None = error
    for _ in range(_DEEPEST):
        if one is None:
            break
        _clear(one.__traceback__)
        one = one.__cause__ or one.__context__
    if isinstance(error, getattr(sys.modules.get("torch"), "OutOfMemoryError", ())):
        _count(error)


def clears_frames(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function so that errors leaving it have their frames cleared."""

    @functools.wraps(function)
    def clearing(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            clear_frames(error)
            del args, kwargs
            raise

    return clearing


def clears_dispatch(mode: type[T]) -> type[T]:
    """Decorate a class of dispatch modes; PyTorch has a frame of its own around their method."""
    setattr(mode, _DISPATCH, clears_frames(getattr(mode, _DISPATCH)))
    return mode


def clear_backward_frames(node: Any) -> None:
    """Have the frames of a derivative cleared when an error leaves it.

    PyTorch's own frame holds the autograd node, and so all that it has saved.

    Args:
        node: class of the autograd nodes of a `torch.autograd.Function` that pgmo has brought into
            the program.
    """
    if _CLEARS in vars(node):
        return
    setattr(node, _CLEARS, True)
    for name in ("apply", "apply_boxed"):
        if hasattr(node, name):
            setattr(node, name, clears_frames(getattr(node, name)))


def _clear(trace: TracebackType | None) -> None:
    while trace is not None:
        frame = trace.tb_frame
        if _is_ours(frame):
            try:
                frame.clear()
            except RuntimeError:
                pass  # it still runs
            else:
                # A tracer or debugger may have made a dictionary of the locals: refresh it.
                _ = frame.f_locals
        trace = trace.tb_next


def _is_ours(frame: FrameType) -> bool:
    if frame.f_code.co_flags & _SUSPENDABLE:
        return False
    if frame.f_code.co_filename.startswith(_GENERATED):
        return True
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in _PACKAGES


def _count(error: BaseException) -> None:
    """Count an error until it is gone."""
    number = id(error)
    if number in _holders:
        return

    def gone(_: object) -> None:
        _holders.pop(number, None)
        held.value = len(_holders)

    _holders[number] = weakref.ref(error, gone)
    held.value = len(_holders)
