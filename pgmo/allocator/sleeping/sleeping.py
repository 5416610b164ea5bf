"""Release of memory between two iterations, and its restoration.

    objects ──▶ storages ──▶ pages without other live blocks ──▶ a copy on the host ──▶ the card
                                                                      resume() ◀──────────┘

    release()               frees all idle pages, including those of arenas
    release(state="host")   also frees pages of optimizer state, with a copy on the host
    resume()                restores the state; pages of arenas are mapped as slots need them

Tensors keep their addresses. Until `resume`, any process may use the freed memory. State sleeps
only on CUDA devices with pages. On other devices, `release` frees only arenas and the framework's
cached memory.
"""

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from pgmo import _core
from pgmo.allocator.adapters.adapter import Adapter
from pgmo.allocator.adapters.find import cuda_adapter
from pgmo.allocator.adapters.hooks.optimizer_state import stepped
from pgmo.allocator.sleeping.guard import SleepGuard
from pgmo.allocator.sleeping.host_copy import HostCopy
from pgmo.allocator.sleeping.storages import bytes_within, listed, storages
from pgmo.errors import OptionError, PgmoError, SessionError
from pgmo.units import format_bytes

NO_PAGES = (
    "no state sleeps here, because pgmo has no pages of a CUDA device: only idle memory is freed"
)

CAPTURED = "memory cannot be released while a CUDA graph is captured"

State = Literal["host", "drop"]


@dataclass(frozen=True)
class Released:
    """Result of `Session.release` and `pgmo.phase`.

    Args:
        card: bytes given back to the card.
        host: bytes of state kept on the host.
        awake: bytes of state that could not sleep. This state lies in PyTorch's own segments,
            shares a page with other blocks, or is used by another process.
        number: number of the sleep, for `Session.resume`; 0 if nothing sleeps.

    Example:
        >>> print(Released(card=3 << 30, host=1 << 30, awake=0))
        3.00 GiB given back to the card, 1.00 GiB of it kept on the host
    """

    card: int = 0
    host: int = 0
    awake: int = 0
    number: int = 0

    def __str__(self) -> str:
        text = f"{format_bytes(self.card)} given back to the card"
        if self.host:
            text += f", {format_bytes(self.host)} of it kept on the host"
        if self.awake:
            text += f"; {format_bytes(self.awake)} could not sleep and stay on the card"
        return text


@dataclass(eq=False)
class Sleep:
    """Sleep of some objects: one call has released their memory.

    Args:
        number: identifier of this sleep on its device.
        copy: copy of the contents; None if they were dropped.
        guard: guard that refuses use of the objects.
        size: bytes of the released pages.
        owner: the `Sleeping` that can wake the objects.
        objects: weak references to the objects.
    """

    number: int
    copy: HostCopy | None
    guard: SleepGuard
    size: int
    owner: "Sleeping"
    objects: list["weakref.ref[Any]"]

    @property
    def living(self) -> list[Any]:
        """Objects that still exist."""
        return [one for ref in self.objects if (one := ref()) is not None]


class Sleeping:
    """Sleeps of a session, or of a device without a session. Not thread-safe.

    Attributes:
        sleeps: sleeps that have not ended.
    """

    def __init__(self, adapter: Adapter, warn: Callable[[str], object]) -> None:
        self._adapter = adapter
        self._warn = warn
        self._cuda = cuda_adapter(adapter) if adapter.pages else None
        self.sleeps: list[Sleep] = []

    @property
    def asleep(self) -> int:
        """Bytes of state that are asleep."""
        return sum(one.size for one in self.sleeps)

    def release(self, state: State | None, of: object) -> Released:
        """Free idle memory; with `state` or `of`, put state to sleep. See `Session.release`."""
        slept = Released()
        before = self.held
        if state is not None or of is not None:
            _, slept = self.put_to_sleep(of, state or "host")
        self.give_back()
        card = max(before - self.held, slept.card)
        return Released(card, slept.host, slept.awake, slept.number)

    def put_to_sleep(self, objects: object, state: State) -> tuple[Sleep | None, Released]:
        """Free the pages that only these objects occupy.

        Args:
            objects: tensors, modules or optimizers; None for the optimizers that have stepped.
            state: "host" copies the contents to the host, "drop" discards them.

        Returns:
            The sleep for `wake`, or None without pages of a CUDA device; and the freed memory.

        Raises:
            OptionError: if `state` or an object is invalid.
            SessionError: while a CUDA graph is captured.
        """
        if state not in ("host", "drop"):
            raise OptionError(f"state={state!r} is neither 'host' nor 'drop'")
        import torch

        cuda = self._cuda
        if cuda is None:
            if objects is not None and self._adapter.name == "torch":
                storages(objects, 0)  # only to check the types
            self._warn(NO_PAGES)
            return None, Released()
        if torch.cuda.is_current_stream_capturing():
            raise SessionError(CAPTURED)
        chosen = stepped() if objects is None else listed(objects)
        meant = storages(chosen, cuda.index)
        cuda.synchronize()
        number, runs = _core.prepare_sleep(cuda.space, list(meant.items()))
        if not number:
            raise SessionError(CAPTURED)
        try:
            copy = HostCopy(cuda, runs) if state == "host" else None
            cuda.synchronize()
            guard = SleepGuard(chosen)
        except BaseException:
            _core.end_sleep(cuda.space, number)
            raise
        cuda.note_sleep()
        released = _core.begin_sleep(cuda.space, number)
        sleep = Sleep(number, copy, guard, released, self, [weakref.ref(one) for one in chosen])
        self.sleeps.append(sleep)
        host = copy.size if copy is not None else 0
        awake = sum(meant.values()) - bytes_within(meant, runs)
        return sleep, Released(released, host, awake, number)

    def wake(self, sleep: Sleep | None) -> None:
        """Restore the memory of a sleep at the same addresses. Repeated calls have no effect.

        Raises:
            SessionError: if the card has too little memory. All of the sleep's memory stays asleep.
        """
        cuda = self._cuda
        if cuda is None or sleep is None or sleep not in self.sleeps:
            return
        cuda.synchronize()
        awake, runs = _core.wake(cuda.space, sleep.number)
        if not awake:
            cuda.empty_cache(pages=True)
            awake, runs = _core.wake(cuda.space, sleep.number)
        if not awake:
            raise SessionError(
                f"the card has too little free memory to restore {format_bytes(sleep.size)}: free "
                "memory on the card, then call session.resume() or begin a phase again"
            )
        cuda.synchronize()
        if sleep.copy is not None:
            sleep.copy.put_back(runs)
            cuda.synchronize()
        # This also releases pages of blocks that were freed during the sleep.
        _core.end_sleep(cuda.space, sleep.number)
        sleep.guard.end()
        self.sleeps.remove(sleep)

    def resume(self, released: Released | None = None) -> None:
        """Wake the state that one call of `release` put to sleep; by default, all state."""
        for sleep in list(reversed(self.sleeps)):
            if released is None or sleep.number == released.number:
                self.wake(sleep)

    def end(self) -> str:
        """Wake all state that fits into memory. Return a warning if state still sleeps, or ""."""
        why = None
        for sleep in list(reversed(self.sleeps)):
            try:
                self.wake(sleep)
            except (PgmoError, RuntimeError) as error:  # RuntimeError if the device is broken
                why = why or error
        return "" if why is None else f"the session was closed while state slept: {why}"

    @property
    def held(self) -> int:
        """Bytes that pages and arenas hold on the device."""
        statistics = self._adapter.engine.statistics()
        return int(statistics["pages_held"] + statistics["arena_bytes"])

    def give_back(self, *, blocks: bool = True) -> None:
        """Free idle memory between two iterations.

        Args:
            blocks: whether to free arenas that have no live blocks, on devices without pages. If
                arenas were freed, slots serve no request of the next iteration.
        """
        if self._cuda is None:
            if blocks:
                self._adapter.engine.yield_idle()
            self._adapter.empty_cache()
            return
        self._cuda.free_idle()
