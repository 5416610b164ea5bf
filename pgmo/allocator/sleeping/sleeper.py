"""Puts memory of one CUDA device to sleep, and wakes it.

    objects ──▶ storages ──▶ pages on which nothing else lives ──▶ a copy on the host ──▶ the card
                                                                        resume() ◀──────────┘

Addresses stay with their tensors. The pages are whoever's needs them, on this card, meanwhile.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pgmo import _core
from pgmo.allocator.adapters.optimizer_state import stepped
from pgmo.allocator.sleeping.host_copy import HostCopy
from pgmo.allocator.sleeping.released import Released, State, check_state
from pgmo.allocator.sleeping.storages import bytes_within, listed, storages
from pgmo.allocator.sleeping.watch import Watch
from pgmo.errors import SessionError
from pgmo.units import format_bytes

if TYPE_CHECKING:
    from pgmo.allocator.adapters.torch_cuda import TorchCuda


@dataclass(eq=False)
class Sleep:
    """What went to sleep at once."""

    number: int
    copy: HostCopy | None
    watch: Watch
    size: int


class Sleeper:
    """All that sleeps on one device. To be used by one thread at a time.

    Args:
        adapter: of the device, whose pages it has.

    Example:
        >>> sleeper = Sleeper(torch_cuda(0))  # doctest: +SKIP
        >>> sleep, released = sleeper.put_to_sleep([optimizer], "host")  # doctest: +SKIP
        >>> sleeper.wake(sleep)  # doctest: +SKIP
    """

    def __init__(self, adapter: "TorchCuda") -> None:
        self._adapter = adapter
        self._asleep: list[Sleep] = []

    @property
    def asleep(self) -> int:
        """Bytes that sleep, or did when their tensors lived."""
        return sum(one.size for one in self._asleep)

    @property
    def everything(self) -> list[Sleep]:
        """All sleeps that have not ended, in the order in which they began."""
        return list(self._asleep)

    def put_to_sleep(self, objects: object, state: State) -> tuple[Sleep, Released]:
        """Gives pages back on which only these objects lie.

        Args:
            objects: tensors, modules, optimizers; None for the optimizers that have stepped.
            state: "host" keeps what they hold on the host, "drop" does not.

        Raises:
            OptionError: when something else is among the objects.
            SessionError: while a graph is captured, when nothing can sleep.
        """
        check_state(state)
        objects = stepped() if objects is None else listed(objects)
        adapter = self._adapter
        meant = storages(objects, adapter.index)
        space = adapter.space
        adapter.synchronize()
        number, runs = _core.lie_down(space, list(meant.items()))
        if not number:
            raise SessionError("nothing can sleep while a CUDA graph is captured; do so before")
        try:
            copy = HostCopy(adapter, runs) if state == "host" else None
            adapter.synchronize()
            watch = Watch(objects, _ADVICE)
        except BaseException:
            _core.get_up(space, number)
            raise
        adapter.note_sleep()
        released = _core.fall_asleep(space, number)
        sleep = Sleep(number, copy, watch, released)
        self._asleep.append(sleep)
        host = copy.size if copy is not None else 0
        awake = sum(meant.values()) - bytes_within(meant, runs)
        return sleep, Released(released, host, awake, number)

    def hand_over(self) -> None:
        """What idles is used again before more than is in use now is asked of the card."""
        _core.forget_peak(self._adapter.space)

    def wake(self, sleep: Sleep) -> None:
        """Puts back what a sleep took, at the same addresses. Twice is fine.

        Raises:
            SessionError: when the card has too little memory; then all of it sleeps on.
        """
        if sleep not in self._asleep:
            return
        adapter = self._adapter
        adapter.synchronize()
        awake, runs = _core.wake(adapter.space, sleep.number)
        if not awake:
            adapter.empty_cache(pages=True)
            awake, runs = _core.wake(adapter.space, sleep.number)
        if not awake:
            raise SessionError(
                f"{format_bytes(sleep.size)} sleep, and the card has not so much memory free: "
                "release what others hold there, and call session.resume() again"
            )
        adapter.synchronize()
        if sleep.copy is not None:
            sleep.copy.put_back(runs)
            adapter.synchronize()
        _core.get_up(adapter.space, sleep.number)  # a block that died meanwhile leaves its place
        sleep.watch.end()
        self._asleep.remove(sleep)


_ADVICE = ": call session.resume() before, or leave the phase in which it sleeps"
