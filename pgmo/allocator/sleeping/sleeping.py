"""What a session gives back between two iterations, and how it comes back.

    objects ──▶ storages ──▶ pages on which nothing else lives ──▶ a copy on the host ──▶ the card
                                                                        resume() ◀──────────┘

    release()               pages of arenas, and all that idle
    release(state="host")   and optimizer state, which the host keeps
    resume()                the state; arenas' pages come as slots need them

Addresses stay with their tensors. Meanwhile the pages belong to whoever needs them, on this card.
State sleeps on CUDA devices with pages. Elsewhere arenas are given back as far as their memory
allows.
"""

from collections.abc import Callable
from dataclasses import dataclass

from pgmo import _core
from pgmo.allocator.adapters.adapter import Adapter
from pgmo.allocator.adapters.find import cuda_adapter
from pgmo.allocator.adapters.optimizer_state import stepped
from pgmo.allocator.sleeping.guard import SleepGuard
from pgmo.allocator.sleeping.host_copy import HostCopy
from pgmo.allocator.sleeping.released import Released, State
from pgmo.allocator.sleeping.storages import bytes_within, listed, storages
from pgmo.errors import OptionError, PgmoError, SessionError
from pgmo.units import format_bytes

NO_PAGES = (
    "no state sleeps here: that takes pages of a CUDA device, which this session does not have; "
    "arenas alone are given back"
)


@dataclass(eq=False)
class Sleep:
    """Objects that sleep together.

    Args:
        number: of the sleep, among those of the device.
        copy: their contents; None where these are dropped.
        guard: refuses their use.
        size: bytes that sleep.
        of_stage: whether the end of a stage wakes them, and not `resume`.
    """

    number: int
    copy: HostCopy | None
    guard: SleepGuard
    size: int
    of_stage: bool


class Sleeping:
    """The part of a session that gives memory back. To be used by one thread at a time.

    Args:
        adapter: of the session.
        warn: called where nothing can sleep.
    """

    def __init__(self, adapter: Adapter, warn: Callable[[str], object]) -> None:
        self._adapter = adapter
        self._warn = warn
        self._cuda = cuda_adapter(adapter) if adapter.pages else None
        self._sleeps: list[Sleep] = []

    @property
    def asleep(self) -> int:
        """Bytes of state that sleep."""
        return sum(one.size for one in self._sleeps)

    def release(self, state: State | None, of: object) -> Released:
        """Gives back what idles, and puts state to sleep.

        Raises:
            OptionError, SessionError: as `Session.release` says.
        """
        slept = Released()
        before = self._held()
        if state is not None or of is not None:
            _, slept = self.put_to_sleep(of, state or "host")
        self.give_back()
        card = max(before - self._held(), slept.card)
        return Released(card, slept.host, slept.awake, slept.number)

    def put_to_sleep(
        self, objects: object, state: State, *, of_stage: bool = False
    ) -> tuple[Sleep | None, Released]:
        """Gives pages back on which only these objects lie.

        Args:
            objects: tensors, modules, optimizers; None for the optimizers that have stepped.
            state: "host" keeps what they hold on the host, "drop" does not.
            of_stage: whether the end of a stage wakes them.

        Returns:
            What `wake` wants, None where nothing can sleep; and what was given back.

        Raises:
            OptionError: when something else is among the objects.
            SessionError: while a graph is captured, when nothing can sleep.
        """
        if state not in ("host", "drop"):
            raise OptionError(f"state={state!r} is neither 'host' nor 'drop'")
        cuda = self._cuda
        if cuda is None:
            if objects is not None and self._adapter.name == "torch":
                storages(objects, 0)  # for what else is among them
            self._warn(NO_PAGES)
            return None, Released()
        objects = stepped() if objects is None else listed(objects)
        meant = storages(objects, cuda.index)
        cuda.synchronize()
        number, runs = _core.lie_down(cuda.space, list(meant.items()))
        if not number:
            raise SessionError("nothing can sleep while a CUDA graph is captured; do so before")
        try:
            copy = HostCopy(cuda, runs) if state == "host" else None
            cuda.synchronize()
            guard = SleepGuard(objects)
        except BaseException:
            _core.get_up(cuda.space, number)
            raise
        cuda.note_sleep()
        released = _core.fall_asleep(cuda.space, number)
        sleep = Sleep(number, copy, guard, released, of_stage)
        self._sleeps.append(sleep)
        host = copy.size if copy is not None else 0
        awake = sum(meant.values()) - bytes_within(meant, runs)
        return sleep, Released(released, host, awake, number)

    def hand_over(self) -> None:
        """What idles is used again before more than is in use now is asked of the card."""
        if self._cuda is not None:
            _core.forget_peak(self._cuda.space)

    def wake(self, sleep: Sleep | None) -> None:
        """Puts back what a sleep took, at the same addresses. Twice is fine.

        Raises:
            SessionError: when the card has too little memory; then all of it sleeps on.
        """
        cuda = self._cuda
        if cuda is None or sleep is None or sleep not in self._sleeps:
            return
        cuda.synchronize()
        awake, runs = _core.wake(cuda.space, sleep.number)
        if not awake:
            cuda.empty_cache(pages=True)
            awake, runs = _core.wake(cuda.space, sleep.number)
        if not awake:
            raise SessionError(
                f"{format_bytes(sleep.size)} sleep, and the card has not so much memory free: "
                "release what others hold there, and call session.resume() again"
            )
        cuda.synchronize()
        if sleep.copy is not None:
            sleep.copy.put_back(runs)
            cuda.synchronize()
        _core.get_up(cuda.space, sleep.number)  # a block that died meanwhile leaves its place
        sleep.guard.end()
        self._sleeps.remove(sleep)

    def resume(self, released: Released | None = None) -> None:
        """Wakes what `release` has put to sleep: all of it, or what one call has.

        Raises:
            SessionError: when the card has too little memory; what has not been woken sleeps on.
        """
        for sleep in list(reversed(self._sleeps)):
            named = released is None or sleep.number == released.number
            if named and not sleep.of_stage:
                self.wake(sleep)

    def end(self) -> str:
        """Wakes everything, as far as there is memory; returns what has to be said."""
        why = None
        for sleep in list(reversed(self._sleeps)):
            sleep.of_stage = False  # what sleeps on waits for `resume`
            try:
                self.wake(sleep)
            except (PgmoError, RuntimeError) as error:  # others than ours where the card is broken
                why = why or error
        return "" if why is None else f"the session was closed while state slept: {why}"

    def _held(self) -> int:
        statistics = self._adapter.engine.statistics()
        return int(statistics["pages_held"] + statistics["arena_bytes"])

    def give_back(self) -> None:
        """Gives back what idles, between two iterations."""
        if self._cuda is None:
            self._adapter.engine.yield_idle()
            self._adapter.empty_cache()
            return
        for _ in range(2):  # the first time records what the second finds completed
            self._adapter.empty_cache(pages=True)
        self.hand_over()
