"""Declared origins of operators that run on behalf of a model.

A step that `pgmo.recompute` captured is one function that enters no modules. A recording would
attribute all operators of the step to one module, and none to recomputation. So while a listener
exists, the step declares the module and phase of each operator.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Declared(threading.local):
    origin: tuple[str, str] | None = None


_declared = _Declared()
_listeners: list[object] = []


def listening() -> bool:
    """Return whether any listener exists."""
    return bool(_listeners)


@contextmanager
def listen() -> Iterator[None]:
    """Make `listening()` return True inside the context."""
    mark = object()
    _listeners.append(mark)
    try:
        yield
    finally:
        _listeners.remove(mark)


@contextmanager
def declare(module: str, phase: str) -> Iterator[None]:
    """Declare the origin of the operators that this thread runs inside the context.

    Args:
        module: path below the module that is running, or whose backward pass is running; or "".
        phase: phase, as in `Tag`.
    """
    before = _declared.origin
    _declared.origin = (module, phase)
    try:
        yield
    finally:
        _declared.origin = before


def declared() -> tuple[str, str] | None:
    """Return the declared module and phase of this thread, or None if none was declared."""
    return _declared.origin
