"""What a session gives back between two iterations, and how it comes back.

    release()               pages of arenas, and all that idle
    release(state="host")   and optimizer state, which the host keeps
    resume()                the state; arenas' pages come as slots need them

On CUDA devices with pages. Elsewhere arenas are given back as far as their memory allows,
and no state sleeps.
"""

from typing import TYPE_CHECKING

from pgmo.allocator.session.state import SessionState
from pgmo.allocator.sleeping.released import Released, State, check_state
from pgmo.allocator.sleeping.storages import storages
from pgmo.errors import PgmoError

if TYPE_CHECKING:  # which programs on other devices need not wait for
    from pgmo.allocator.sleeping.sleeper import Sleep, Sleeper

NO_PAGES = (
    "no state sleeps here: that takes pages of a CUDA device, which this session does not have; "
    "arenas alone are given back"
)


class Sleeping:
    """The part of a session that gives memory back. To be used by one thread at a time.

    Args:
        state: where the session stands.

    Example:
        >>> sleeping = Sleeping(state)  # doctest: +SKIP
        >>> print(sleeping.release("host", None))  # doctest: +SKIP
        6.00 GiB given back to the card, 2.00 GiB of it kept on the host
    """

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self._adapter = state.adapter
        self._engine = state.adapter.engine
        self._sleeper = _sleeper_for(state)
        self._asleep: list[Sleep] = []  # until `resume`

    @property
    def asleep(self) -> int:
        """Bytes of state that sleep."""
        return self._sleeper.asleep if self._sleeper is not None else 0

    def release(self, state: State | None, of: object) -> Released:
        """Gives back what idles, and puts state to sleep.

        Raises:
            OptionError, SessionError: as `Session.release` says.
        """
        slept = Released()
        before = self._held()
        if state is not None or of is not None:
            sleep, slept = self.put_to_sleep(of, state or "host")
            if sleep is not None:
                self._asleep.append(sleep)
        self.give_back()
        card = max(before - self._held(), slept.card)
        return Released(card, slept.host, slept.awake, slept.number)

    def put_to_sleep(self, objects: object, state: State) -> "tuple[Sleep | None, Released]":
        """The same for state alone; what `wake` wants, None where nothing can sleep."""
        if self._sleeper is None:
            check_state(state)
            if objects is not None and self._adapter.name == "torch":
                storages(objects, 0)  # for what else is among them
            self._state.warn(NO_PAGES)
            return None, Released()
        return self._sleeper.put_to_sleep(objects, state)

    def hand_over(self) -> None:
        """What idles is used again before the device is asked for more."""
        if self._sleeper is not None:
            self._sleeper.hand_over()

    def wake(self, sleep: "Sleep | None") -> None:
        """Puts back what a sleep took.

        Raises:
            SessionError: when the card has too little memory.
        """
        if self._sleeper is not None and sleep is not None:
            self._sleeper.wake(sleep)

    def resume(self, released: Released | None = None) -> None:
        """Wakes what `release` has put to sleep: all of it, or what one call has.

        Raises:
            SessionError: when the card has too little memory; what has not been woken sleeps on.
        """
        for sleep in reversed(self._asleep):
            if released is None or sleep.number == released.number:
                self.wake(sleep)
                self._asleep = [one for one in self._asleep if one is not sleep]

    def end(self) -> str:
        """Wakes everything, as far as there is memory; returns what has to be said."""
        if self._sleeper is None:
            return ""
        why = None
        for sleep in reversed(self._sleeper.everything):
            try:
                self._sleeper.wake(sleep)
            except (PgmoError, RuntimeError) as error:  # others than ours where the card is broken
                why = why or error
        self._asleep = self._sleeper.everything
        return "" if why is None else f"the session was closed while state slept: {why}"

    def _held(self) -> int:
        statistics = self._engine.statistics()
        return int(statistics["pages_held"] + statistics["arena_bytes"])

    def give_back(self) -> None:
        """Gives back what idles, between two iterations."""
        adapter = self._adapter
        if self._sleeper is None:
            self._engine.yield_idle()
            adapter.empty_cache()
            return
        for _ in range(2):  # the first time records what the second finds completed
            adapter.empty_cache(pages=True)
        self.hand_over()


def _sleeper_for(state: SessionState) -> "Sleeper | None":
    adapter = state.adapter
    if not adapter.pages:
        return None
    from pgmo.allocator.adapters.torch_cuda import TorchCuda
    from pgmo.allocator.sleeping.sleeper import Sleeper

    return Sleeper(adapter) if isinstance(adapter, TorchCuda) else None
