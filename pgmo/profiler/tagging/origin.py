"""What code that runs operators on behalf of a model says of where they come from.

A captured step is one function, in which no module is entered: whoever records it would see one
module that does everything, and nothing that is computed again. So while somebody listens, it says
before each operator whose it is.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Said(threading.local):
    origin: tuple[str, str] | None = None


_said = _Said()
_listeners: list[object] = []


def listening() -> bool:
    """Whether somebody wants to know."""
    return bool(_listeners)


@contextmanager
def listen() -> Iterator[None]:
    """Inside, `listening()` is true."""
    mark = object()
    _listeners.append(mark)
    try:
        yield
    finally:
        _listeners.remove(mark)


@contextmanager
def said_of(module: str, phase: str) -> Iterator[None]:
    """Says of the operators that this thread runs inside where they come from.

    Args:
        module: path below the module that is running, or whose backward pass is; "" for itself.
        phase: as in `Tag`.

    Example:
        >>> with said_of("mlp.0", "recompute"):
        ...     said()
        ('mlp.0', 'recompute')
        >>> said()
    """
    before = _said.origin
    _said.origin = (module, phase)
    try:
        yield
    finally:
        _said.origin = before


def said() -> tuple[str, str] | None:
    """Module and phase of what this thread runs now; None where nothing was said."""
    return _said.origin
