"""Stages of a loop: what each does not need sleeps, and idle pages go from one to the next.

rollout     parameters ▓▓▓  cache ▓▓▓▓▓▓▓▓▓▓▓▓        optimizer state asleep
training    parameters ▓▓▓  state ▓▓▓▓▓▓  arena ▓▓▓▓▓▓
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pgmo.allocator.sleeping.released import Released, State
from pgmo.allocator.sleeping.sleeping import Sleeping

if TYPE_CHECKING:
    from pgmo.allocator.sleeping.sleeper import Sleep


@dataclass(frozen=True, eq=False)
class Stay:
    """One time in a stage."""

    name: str
    sleep: "Sleep | None"
    released: Released
    iterations: int  # that had ended before


class Stages:
    """The stages that a loop is in. To be used by one thread at a time.

    Args:
        sleeping: puts to sleep what a stage does not need.
        ended: how many iterations have ended.

    Example:
        >>> stay = stages.enter("rollout", [optimizer], "host")  # doctest: +SKIP
        >>> stages.leave(stay)  # doctest: +SKIP
    """

    def __init__(self, sleeping: Sleeping, ended: Callable[[], int]) -> None:
        self._sleeping = sleeping
        self._ended = ended

    def enter(self, name: str, objects: object, state: State) -> Stay:
        """A stage begins.

        Raises:
            OptionError, SessionError: as `Session.stage` says.
        """
        sleep, released = None, Released()
        if objects is not None:
            sleep, released = self._sleeping.put_to_sleep(objects, state)
        self._sleeping.hand_over()
        return Stay(name, sleep, released, self._ended())

    def nothing_ended(self, stay: Stay) -> bool:
        """Whether no iteration has ended since."""
        return self._ended() == stay.iterations

    def leave(self, stay: Stay) -> None:
        """It ends.

        Raises:
            SessionError: when the card has too little memory to wake what sleeps.
        """
        self._sleeping.wake(stay.sleep)
        self._sleeping.hand_over()
