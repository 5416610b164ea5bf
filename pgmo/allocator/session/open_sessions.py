"""Registry of open sessions. A device has one session, or several that take turns on its pages.

The registry has the state that the end of a session must undo, but only a weak reference to the
program's session object. If that object is lost without `close()`, its finalizer ends the session.
"""

import gc
import os
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from pgmo.allocator.adapters.adapter import Adapter
from pgmo.allocator.adapters.find import cuda_adapter
from pgmo.allocator.session.lifecycle import Lifecycle
from pgmo.allocator.session.options import Options
from pgmo.allocator.session.threads import process_turns
from pgmo.allocator.session.threads.boundary import exclusive, uninterrupted, when_free
from pgmo.allocator.session.threads.device_turns import DeviceTurn, TurnQueue
from pgmo.allocator.session.threads.process_turns import ProcessTurns
from pgmo.allocator.session.threads.turns import Turns
from pgmo.allocator.sleeping.sleeping import Sleeping
from pgmo.errors import AdapterError, SessionError
from pgmo.profiler.profile import Profile
from pgmo.user_warnings import warn_user

_NO_LIMIT = "limit= has no effect: it limits memory in pages, and this session has no pages"


def never_passes() -> bool:
    """Return False, so that the session examines every iteration."""
    return False


@dataclass(eq=False)
class OpenSession:
    """Parts of an open session, without the program's session object.

    Args:
        lifecycle: state machine that runs at boundaries.
        session: weak reference to the program's `Session`, which imports this module.
        device_turn: turns on the device; None if the session cannot share the device.
        process_turns: turns between processes on the card; None if the card is not shared.
        process: id of the process that opened the session.
        pass_step: function that ends an iteration if the session need not examine it; returns
            whether an iteration was ended.

    Attributes:
        sleeping: the session's sleeping memory.
    """

    lifecycle: Lifecycle
    session: "weakref.ref[Any]"
    device_turn: DeviceTurn | None = None
    process_turns: ProcessTurns | None = None
    process: int = field(default_factory=os.getpid)
    pass_step: Callable[[], bool] = never_passes
    sleeping: Sleeping = field(init=False)

    def __post_init__(self) -> None:
        state = self.lifecycle.state
        self.sleeping = Sleeping(state.adapter, state.warn)
        if not state.adapter.unified:  # unified memory is prefetched after each iteration
            self.pass_step = state.adapter.engine.pass_step

    @property
    def turns(self) -> Turns:
        """Object that decides which thread's iterations count."""
        return self.lifecycle.state.turns

    @property
    def adapter(self) -> Adapter:
        """Adapter of the framework's allocator."""
        return self.lifecycle.state.adapter

    @property
    def on_user_session(self) -> Callable[[], object] | None:
        """The session's `on_user_session` callback; None once the session object is gone."""
        return getattr(self.session(), "on_user_session", None)

    @property
    def held_turn(self) -> DeviceTurn | None:
        """Turn of this session on the device; None if the calling thread does not hold it."""
        return self.device_turn if self.device_turn is not None and self.device_turn.held else None

    def take_turn(self) -> bool:
        """Wait for the turns on device and card; return False if the device's turn timed out."""
        taken = True
        if self.device_turn is not None and self.device_turn.shared and not self.device_turn.held:
            taken = self.device_turn.take()
        if self.process_turns is not None:
            self.process_turns.take(self)
        return taken

    def give_turn(self, *, whole: bool = True, keeps_device_turn: bool = False) -> None:
        """End the turns that the calling thread holds; `whole` if the iteration was complete."""
        if self.process_turns is not None:
            self.process_turns.give(self, whole=whole)
        if self.device_turn is not None and not keeps_device_turn:
            self.device_turn.give()


Key = tuple[str, str, int]

_open: dict[Key, OpenSession] = {}
"""Open sessions by framework name, device and session index. Each key has its own engine."""

_turn_queues: dict[str, TurnQueue] = {}
"""Turns of the sessions on each device, by device name."""


def _key(adapter: Adapter) -> Key:
    return adapter.name, adapter.device, adapter.session_index


def find_open(adapter: Adapter) -> OpenSession | None:
    """Return an open session on an adapter's device, preferably of the adapter's index, or None."""
    there = (one for (*under, _), one in _open.items() if under == [adapter.name, adapter.device])
    return _open.get(_key(adapter)) or next(there, None)


def any_open(device: str = "") -> bool:
    """Return whether a session is open on a device ("cuda:0") or any device of a kind ("cuda").

    Args:
        device: the device or the kind; "" for any.
    """
    return any(f"{one}:".startswith(f"{device}:" if device else "") for _, one, _ in _open)


def open_profiles() -> list[Profile]:
    """Return the latest profile of each open session that has a profile."""
    found = (one.lifecycle.state.profile for one in _open.values())
    return [one for one in found if one is not None]


def begin(session: Any, adapter: Adapter, options: Options) -> OpenSession:
    """Install the adapter of a session over the framework's allocator, and start the session.

    Raises:
        SessionError: if a session is open on the device and cannot share it.
        AdapterError, FileError, PlanError: if the allocator, a file or a plan cannot be used.
    """
    if find_open(adapter) is not None:
        gc.collect()  # a lost session object may be in a reference cycle
    with exclusive():
        _leave_to_parent(adapter)
        other = find_open(adapter)
        if other is not None and other.on_user_session is not None:
            other.on_user_session()
        other = find_open(adapter)
        if other is not None:
            adapter = _adapter_for_another(other, session, adapter, options)
        adapter.choose_pages(options.pages is not False, options.limit_bytes)
        lifecycle = Lifecycle(adapter, options)
        opened = OpenSession(lifecycle, weakref.ref(session))
        adapter.install()
        try:
            lifecycle.start()
            if options.limit is not None and not adapter.pages:
                lifecycle.state.warn(_NO_LIMIT)
            _open[_key(adapter)] = opened
            if session.shares_card:
                opened.device_turn = _device_turn_of(opened)
                opened.process_turns = process_turns.join(
                    opened, adapter, opened.sleeping.give_back, lifecycle.state.warn
                )
            finalizer = weakref.finalize(session, when_free, lambda: end(opened))
            finalizer.atexit = False  # the process ends anyway, and the driver may be gone
        except BaseException:
            _undo(opened)
            raise
    return opened


def _leave_to_parent(adapter: Adapter) -> None:
    """Forget the sessions on the adapter's device that this forked child has inherited."""
    for key, opened in list(_open.items()):
        if opened.process == os.getpid() or key[:2] != (adapter.name, adapter.device):
            continue
        opened.pass_step = never_passes
        with uninterrupted(), ExitStack() as steps:
            steps.callback(_open.pop, key, None)
            steps.callback(opened.turns.close)
            steps.callback(opened.lifecycle.stop)


def _adapter_for_another(
    other: OpenSession, session: Any, adapter: Adapter, options: Options
) -> Adapter:
    """Return an adapter for one more session; raise `SessionError` if it cannot share the pages."""
    first, wanted = cuda_adapter(other.adapter), cuda_adapter(adapter)
    can = other.device_turn is not None and session.shares_card and options.pages is not False
    if can and first is not None and wanted is not None:
        return first.for_another_session()
    raise SessionError(
        f"a session for {adapter.name} on {adapter.device} is open already, and sessions without "
        "pages cannot share a device; leave the `with` block of the open session first, or call "
        "pgmo.close(), which closes it wherever it was opened"
    )


def _device_turn_of(opened: OpenSession) -> DeviceTurn | None:
    """Return the session's turn on its device; None if the session has no pages to share."""
    adapter = cuda_adapter(opened.adapter) if opened.adapter.pages else None
    if adapter is None:
        return None
    queue = _turn_queues.setdefault(adapter.device, TurnQueue())
    state = opened.lifecycle.state
    return DeviceTurn(
        adapter,
        queue,
        lambda: opened.turns.running(),
        state.warn,
        state.paused,
        opened.lifecycle.collector.leave_out_driver_calls,
    )


def end(opened: OpenSession) -> None:
    """End a session and uninstall its adapter. Call inside `exclusive`.

    Repeated calls have no effect. If a part cannot be undone, the user is warned.
    """
    if _open.get(_key(opened.adapter)) is opened and (trouble := _undo(opened)):
        warn_user(trouble)


def _undo(opened: OpenSession) -> str:
    """End a session. Return the reasons why parts could not be undone, usually ""."""
    warnings: list[str] = []
    opened.pass_step = never_passes
    shared, opened.process_turns = opened.process_turns, None
    # Callbacks run last to first, and each runs even if another fails: the device may be broken.
    with uninterrupted(), ExitStack() as steps:
        steps.callback(lambda: warnings.append(_uninstall(opened.adapter)))
        steps.callback(_open.pop, _key(opened.adapter), None)
        if opened.device_turn is not None:
            steps.callback(opened.device_turn.leave)
        steps.callback(opened.turns.close)
        steps.callback(opened.lifecycle.stop)
        if shared is not None:
            steps.callback(process_turns.leave, opened, opened.adapter.device, shared)
        warnings.append(opened.sleeping.end())
    return "; ".join(filter(None, warnings))


def _uninstall(adapter: Adapter) -> str:
    try:
        adapter.uninstall()
    except AdapterError as error:
        # Harmless, because the engine now forwards all requests. Raising could hide an exception
        # of the program.
        return f"pgmo could not be uninstalled and now only forwards requests: {error}"
    return ""


def close(device: object = None) -> None:
    """Close all sessions that the program has opened, wherever it opened them.

    Use this in notebooks, where an interrupted cell or a lost object can leave a session open.
    Tensors stay valid. Sessions that pgmo has opened by itself, as in `pgmo run` and `pgmo.wrap`,
    stay open. They close when the program opens its own session.

    Args:
        device: close only sessions on this device: "cpu", "cuda:1", or a `torch.device`; "cuda"
            means all CUDA devices. Default: all devices.

    Raises:
        OptionError: if `device` names no device.

    Example:
        >>> import pgmo
        >>> pgmo.close()
    """
    name = "" if device is None else str(Options(device=device).device)
    with exclusive():
        for opened in list(_open.values()):
            where = opened.adapter.device
            meant = not name or where == name or where.startswith(f"{name}:")
            if not meant or opened.on_user_session is not None:
                continue
            session = opened.session()
            if session is not None:
                session.close()
            else:
                end(opened)
