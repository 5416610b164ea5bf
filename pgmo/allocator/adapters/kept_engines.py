"""Engines under PyTorch's allocators, kept where a second import of pgmo finds them.

    sys.modules loses pgmo ─▶ import pgmo ─▶ new Python modules, the same `_core`, the same adapter
                                                      └─ `_core` keeps the engines ─┘

An adapter serves one engine of a device for as long as the process lives, for its blocks are the
engine's. Python keeps the native module `_core` loaded as well, so the engines are its attributes.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

from pgmo import _core
from pgmo.errors import AdapterError

_kept: dict[tuple[str, int], SimpleNamespace] = vars(_core).setdefault("_kept_engines", {})
"""By device and seat: `engine`, `user` and `process`. The user is the adapter whose session is
open, or None, and the process is the one that opened it."""


def kept_engine(device: str, seat: int = 0) -> _core.Engine:
    """Return the engine of a device's seat, which is made once in a process.

    Example:
        >>> kept_engine("cpu") is kept_engine("cpu")
        True
    """
    key = device, seat
    if key not in _kept:
        _kept[key] = SimpleNamespace(engine=_core.Engine(), user=None, process=0)
    found: _core.Engine = _kept[key].engine
    return found


@contextmanager
def claimed(device: str, seat: int, user: object) -> Iterator[None]:
    """Note that an adapter serves a session, unless the block fails.

    Args:
        device: of the adapter.
        seat: of the adapter.
        user: the adapter.

    Raises:
        AdapterError: when a session is open that modules of an earlier import of pgmo opened.
    """
    framework = device.partition(":")[0]
    for (other, _), kept in _kept.items():
        same = other.partition(":")[0] == framework
        if not same or kept.user is None or kept.process != os.getpid():
            continue
        if type(kept.user) is not type(user):
            raise AdapterError(
                "pgmo was imported a second time while a session of the first import is open on "
                f"{other}: close that session first, or do not remove pgmo from sys.modules"
            )
    if (device, seat) in _kept:
        _kept[device, seat].user, _kept[device, seat].process = user, os.getpid()
    try:
        yield
    except BaseException:
        release(device, seat)
        raise


def release(device: str, seat: int) -> None:
    """Note that the session has been closed. Twice is fine."""
    if (device, seat) in _kept:
        _kept[device, seat].user = None
