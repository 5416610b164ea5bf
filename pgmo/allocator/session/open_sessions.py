"""The sessions that are open: one under each allocator, or several that take turns on its pages.

An open session is known here by what has to be undone at its end. The object that the program holds
is not kept alive: when it is lost, without having been closed, its end undoes it.
"""

import gc
import os
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Protocol

from pgmo.allocator.adapters.adapter import Adapter
from pgmo.allocator.adapters.find import cuda_adapter
from pgmo.allocator.session.lifecycle import Lifecycle
from pgmo.allocator.session.options import Options
from pgmo.allocator.session.threads import process_turns
from pgmo.allocator.session.threads.boundary import exclusive, uninterrupted, when_free
from pgmo.allocator.session.threads.card_turns import CardSeat, CardTurns
from pgmo.allocator.session.threads.process_turns import ProcessTurns
from pgmo.allocator.session.threads.turns import Turns
from pgmo.allocator.sleeping.sleeping import Sleeping
from pgmo.errors import AdapterError, SessionError
from pgmo.profiler.profile import Profile


class Owner(Protocol):
    """Protocol of the `Session` that a program holds, which imports this module."""

    shares_card: bool
    give_way: Callable[[], object] | None

    def close(self) -> None:
        """Returns to the framework's own allocator."""

    def leave_to_parent(self) -> None:
        """Leaves the engine alone, in a forked child."""


@dataclass(eq=False)
class OpenSession:
    """Parts of an open session, apart from the object that the program holds.

    Args:
        lifecycle: what it does at boundaries.
        session: what the program holds.
        seat: among the sessions of its device; None where it cannot share it.
        among: the turns of this process among others; None where it shares no card with any.
        process: that opened it.
    """

    lifecycle: Lifecycle
    session: "weakref.ref[Owner]"
    seat: CardSeat | None = None
    among: ProcessTurns | None = None
    process: int = field(default_factory=os.getpid)
    sleeping: Sleeping = field(init=False)

    def __post_init__(self) -> None:
        state = self.lifecycle.state
        self.sleeping = Sleeping(state.adapter, state.warn)

    @property
    def turns(self) -> Turns:
        """Whose boundaries count."""
        return self.lifecycle.state.turns

    @property
    def adapter(self) -> Adapter:
        """Whose allocator it lies under."""
        return self.lifecycle.state.adapter

    @property
    def give_way(self) -> Callable[[], object] | None:
        """Return the session's `give_way` callback; None once the session is gone."""
        session = self.session()
        return session.give_way if session is not None else None

    @property
    def holds_seat(self) -> bool:
        """Whether the calling thread has this session's turn among those of its device."""
        return self.seat is not None and self.seat.held

    def take_turn(self) -> bool:
        """Waits for the turns on a device that several sessions or processes share.

        Returns:
            False when that of the sessions could not be had.

        Raises:
            SessionError: when the calling thread has the turn of another session.
        """
        taken = True
        if self.seat is not None and self.seat.shared and not self.seat.held:
            taken = self.seat.take()
        if self.among is not None:
            self.among.take(self)
        return taken

    def give_turn(self, *, whole: bool = True, keeps_seat: bool = False) -> None:
        """Ends the turns that the calling thread has. Twice is fine.

        Args:
            whole: whether the iteration ended as iterations do.
            keeps_seat: whether that among the sessions of this process goes on.
        """
        if self.among is not None:
            self.among.give(self, whole=whole)
        if self.seat is not None and not keeps_seat:
            self.seat.give()


Key = tuple[str, str, int]

_open: dict[Key, OpenSession] = {}
"""By the framework's name, device and seat: there is one engine under each."""

_card_turns: dict[str, CardTurns] = {}
"""By the device's name."""


def _key(adapter: Adapter) -> Key:
    return adapter.name, adapter.device, adapter.seat


def find_open(adapter: Adapter) -> OpenSession | None:
    """The one under this framework's allocator, or one of them, if there is any."""
    there = (one for (*under, _), one in _open.items() if under == [adapter.name, adapter.device])
    return _open.get(_key(adapter)) or next(there, None)


def any_open(device: str = "") -> bool:
    """Whether there is one on a device, or on one of a kind (`"cuda"`); anywhere by default."""
    return any(f"{one}:".startswith(f"{device}:" if device else "") for _, one, _ in _open)


def open_profiles() -> list[Profile]:
    """What the open sessions have recorded last; those that have recorded nothing are left out."""
    found = (one.lifecycle.state.profile for one in _open.values())
    return [one for one in found if one is not None]


def begin(session: Owner, adapter: Adapter, options: Options) -> OpenSession:
    """Puts a session under the framework's allocator.

    Raises:
        SessionError: when there is one already.
        AdapterError, FileError, PlanError: when it cannot begin.
    """
    if find_open(adapter) is not None:
        gc.collect()  # it may be lost, and part of a cycle
    with exclusive():
        _leave_to_parent(adapter)
        other = find_open(adapter)
        if other is not None and other.give_way is not None:
            other.give_way()
        other = find_open(adapter)
        if other is not None:
            adapter = _beside(other, session, adapter, options)
        adapter.choose_pages(options.pages is not False, options.limit_bytes)
        lifecycle = Lifecycle(adapter, options)
        opened = OpenSession(lifecycle, weakref.ref(session))
        adapter.install()
        try:
            lifecycle.start()
            _open[_key(adapter)] = opened
            if session.shares_card:
                opened.seat = _seat_of(opened)
                opened.among = process_turns.join(
                    opened, adapter, opened.sleeping.give_back, lifecycle.state.warn
                )
            finalizer = weakref.finalize(session, when_free, lambda: _end_lost(opened))
            finalizer.atexit = False  # the process ends anyway, and the driver may be gone
        except BaseException:
            _undo(opened)
            raise
    return opened


def _leave_to_parent(adapter: Adapter) -> None:
    """Forgets the sessions under this allocator that a forked child has inherited.

    Their engine serves nobody here, and may serve another session.
    """
    for key, opened in list(_open.items()):
        if opened.process == os.getpid() or key[:2] != (adapter.name, adapter.device):
            continue
        session = opened.session()
        if session is not None:
            session.leave_to_parent()
        with uninterrupted(), ExitStack() as steps:
            steps.callback(_open.pop, key, None)
            steps.callback(opened.turns.close)
            steps.callback(opened.lifecycle.stop)


def _beside(other: OpenSession, session: Owner, adapter: Adapter, options: Options) -> Adapter:
    """The adapter of one more session on a device."""
    first, wanted = cuda_adapter(other.adapter), cuda_adapter(adapter)
    can = other.seat is not None and session.shares_card and options.pages is not False
    if can and first is not None and wanted is not None:
        return first.another()
    raise SessionError(
        f"a session for {adapter.name} on {adapter.device} is open already: sessions cannot be "
        "nested, and there is one per process where there are no pages to share; leave its `with` "
        "block first, or call pgmo.close(), which closes it wherever it was opened"
    )


def _seat_of(opened: OpenSession) -> CardSeat | None:
    """A place on the device, where it has pages that sessions can share."""
    adapter = cuda_adapter(opened.adapter) if opened.adapter.pages else None
    if adapter is None:
        return None
    turns = _card_turns.setdefault(adapter.device, CardTurns())
    state = opened.lifecycle.state
    return CardSeat(
        adapter,
        turns,
        lambda: opened.turns.running(),
        state.warn,
        state.paused,
        opened.lifecycle.collector.leave_out_driver_calls,
    )


def end(opened: OpenSession) -> str:
    """Returns to the framework's own allocator. Twice is fine; inside of `exclusive`.

    Returns:
        What has to be said of it, in plain words; "" as a rule.
    """
    if _open.get(_key(opened.adapter)) is not opened:
        return ""
    return _undo(opened)


def _undo(opened: OpenSession) -> str:
    said: list[str] = []
    # From the last to the first, each of them whatever becomes of the others: a card may be broken.
    with uninterrupted(), ExitStack() as steps:
        steps.callback(lambda: said.append(_uninstall(opened.adapter)))
        steps.callback(_open.pop, _key(opened.adapter), None)
        if opened.seat is not None:
            steps.callback(opened.seat.leave)
        steps.callback(opened.turns.close)
        steps.callback(opened.lifecycle.stop)
        steps.callback(_leave_processes, opened)
        said.append(opened.sleeping.end())
    return "; ".join(filter(None, said))


def _uninstall(adapter: Adapter) -> str:
    try:
        adapter.uninstall()
    except AdapterError as error:
        # Harmless, for the engine delegates everything now, and perhaps an exception of the
        # program's is on its way out, which matters more.
        return f"pgmo stays beneath the allocator: {error}"
    return ""


def _leave_processes(opened: OpenSession) -> None:
    if opened.among is not None:
        process_turns.leave(opened, opened.adapter.device, opened.among)
        opened.among = None


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
