"""The sessions that are open: one at a time under each allocator.

An open session is known here by what has to be undone at its end. The object that the program holds
is not kept alive: when it is lost, without having been closed, its end undoes it.
"""

import gc
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pgmo.allocator.adapters.adapter import Adapter
from pgmo.allocator.session.lifecycle import Lifecycle
from pgmo.allocator.session.options import Options
from pgmo.allocator.session.threads.boundary import exclusive, uninterrupted, when_free
from pgmo.allocator.session.threads.turns import Turns
from pgmo.errors import AdapterError, SessionError

if TYPE_CHECKING:
    from pgmo.allocator.session.session import Session
    from pgmo.profiler.profile import Profile


@dataclass(eq=False)
class OpenSession:
    """What there is beneath the object that the program holds.

    Args:
        lifecycle: what it does at boundaries.
        session: what the program holds.
        give_way: for whoever opens sessions in other people's programs: called, to close this one,
            when the program opens one of its own. None for the program's own.
    """

    lifecycle: Lifecycle
    session: "weakref.ref[Session]"
    give_way: Callable[[], object] | None = None

    @property
    def turns(self) -> Turns:
        """Whose boundaries count."""
        return self.lifecycle.state.turns

    @property
    def adapter(self) -> Adapter:
        """Whose allocator it lies under."""
        return self.lifecycle.state.adapter


_open: dict[tuple[str, str], OpenSession] = {}
"""By the framework's name and device: there is one engine under each."""


def find_open(adapter: Adapter) -> OpenSession | None:
    """The one under this framework's allocator, if there is one."""
    return _open.get((adapter.name, adapter.device))


def any_open(device: str = "") -> bool:
    """Whether there is one on a device, or on one of a kind (`"cuda"`); anywhere by default."""
    return any(f"{one}:".startswith(f"{device}:" if device else "") for _, one in _open)


def open_profiles() -> "list[Profile]":
    """What the open sessions have recorded last; those that have recorded nothing are left out."""
    found = (one.lifecycle.state.profile for one in _open.values())
    return [one for one in found if one is not None]


def begin(session: "Session", adapter: Adapter, options: Options) -> OpenSession:
    """Puts a session under the framework's allocator.

    Raises:
        SessionError: when there is one already.
        AdapterError, FileError, PlanError: when it cannot begin.
    """
    if find_open(adapter) is not None:
        gc.collect()  # it may be lost, and part of a cycle
    with exclusive():
        other = find_open(adapter)
        if other is not None and other.give_way is not None:
            other.give_way()
        if find_open(adapter) is not None:
            raise SessionError(
                f"a session for {adapter.name} on {adapter.device} is open already: "
                "sessions cannot be nested, and there is one per process; leave its `with` block "
                "first, or call pgmo.close(), which closes it wherever it was opened"
            )
        adapter.choose_pages(options.pages is not False, options.limit_bytes)
        lifecycle = Lifecycle(adapter, options)
        opened = OpenSession(lifecycle, weakref.ref(session))
        adapter.install()
        try:
            lifecycle.start()
            _open[adapter.name, adapter.device] = opened
            finalizer = weakref.finalize(session, when_free, lambda: _end_lost(opened))
            finalizer.atexit = False  # the process ends anyway, and the driver may be gone
        except BaseException:
            with uninterrupted():
                _open.pop((adapter.name, adapter.device), None)
                lifecycle.stop()
                adapter.uninstall()
            raise
    return opened


def end(opened: OpenSession) -> str:
    """Returns to the framework's own allocator. Twice is fine; inside of `exclusive`.

    Returns:
        What has to be said of it, in plain words; "" as a rule.
    """
    adapter = opened.adapter
    if find_open(adapter) is not opened:
        return ""
    with uninterrupted():
        try:
            opened.lifecycle.stop()
        finally:
            opened.turns.close()
            del _open[adapter.name, adapter.device]
            try:
                adapter.uninstall()
                said = ""
            except AdapterError as error:
                # Harmless, for the engine delegates everything now, and perhaps an exception of the
                # program's is on its way out, which matters more.
                said = f"pgmo stays beneath the allocator: {error}"
    return said


def _end_lost(opened: OpenSession) -> None:
    with uninterrupted():
        end(opened)


def close(device: object = None) -> None:
    """Closes whatever session is open, wherever it was opened; fine when there is none.

    For notebooks, where a cell was interrupted or an object was lost whose session is still open.
    Tensors stay valid. What `pgmo run` does is left alone: it makes way for sessions of the
    program's own by itself.

    Args:
        device: "cpu", "cuda:1", or a `torch.device`: only the sessions there; "cuda" means all CUDA
            devices. By default all.

    Raises:
        OptionError: when that names no device.

    Example:
        >>> import pgmo
        >>> pgmo.close()
    """
    name = "" if device is None else str(Options(device=device).device)
    with exclusive():
        for opened in list(_open.values()):
            where = opened.adapter.device
            meant = not name or where == name or where.startswith(f"{name}:")
            if not meant or opened.give_way is not None:
                continue
            session = opened.session()
            if session is not None:
                session.close()
            else:
                end(opened)
