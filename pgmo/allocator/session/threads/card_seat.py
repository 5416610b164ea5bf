"""The place of one session among several on its device."""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from pgmo import _core
from pgmo.allocator.session.threads.card_turns import CardTurns
from pgmo.allocator.session.threads.pauses import Pauses

if TYPE_CHECKING:
    from pgmo.allocator.adapters.torch_cuda import TorchCuda

PASSED_OVER = (
    "another session has had the turn on this device for {:.0f} s; iterations go on without a "
    "plan, from pages, until it gives the turn back: end its iterations, or close it"
)


class CardSeat:
    """Serves a session in its turns. On devices with pages.

    Args:
        adapter: the session's.
        turns: those of the device.
        running: the thread that is inside of an iteration of the session.
        warn: told once of a turn that was waited for in vain.
        paused: the pauses of the session's engine.
        after_others: called when the turn begins and another session had the last one.

    Attributes:
        broken: whether an iteration was cut by the arrival of another session.

    Example:
        >>> pauses = Pauses(torch_cuda(0).engine)  # doctest: +SKIP
        >>> seat = CardSeat(torch_cuda(0), CardTurns(), lambda: None, print, pauses)
        ... # doctest: +SKIP
        >>> seat.take()  # doctest: +SKIP
        True
    """

    def __init__(
        self,
        adapter: "TorchCuda",
        turns: CardTurns,
        running: Callable[[], threading.Thread | None],
        warn: Callable[[str], object],
        paused: Pauses,
        after_others: Callable[[], object] = lambda: None,
    ) -> None:
        self._adapter = adapter
        self._turns = turns
        self._warn = warn
        self._after_others = after_others
        self.running = running
        self._alone = True  # so far
        self._pauses, self._paused = paused, False
        self.broken = False
        turns.join(self)

    @property
    def shared(self) -> bool:
        """Whether there are other sessions on the device, or have been."""
        self._alone = self._alone and not self._turns.shared
        return not self._alone

    @property
    def held(self) -> bool:
        """Whether the calling thread has this session's turn."""
        return self._turns.holds(self)

    def take(self) -> bool:
        """Waits for the turn; False: in vain.

        Raises:
            SessionError: when the calling thread has that of another session.
        """
        taken = self._turns.take(self)
        if not taken:
            self._warn(PASSED_OVER.format(self._turns.deadline))
        return taken

    def give(self) -> None:
        """Ends the turn, if the calling thread has it."""
        self._turns.give(self)

    def leave(self) -> None:
        """The session has been closed."""
        self._turns.leave(self)
        self._pauses.end(self)

    # --- what the turns call ----------------------------------------------------------------------

    def begin(self, *, after_others: bool) -> None:
        """It has the turn: what idles in the arenas of others is its own."""
        if after_others:
            _core.forget_peak(self._adapter.space)
            self._adapter.take_turn()
            self._after_others()
        self._pauses.end(self)
        self._paused = False

    def end(self) -> None:
        """It has it no more, or has none yet."""
        if self._paused:
            return
        began = bool(self._adapter.engine.threads())
        self.broken = began and not self._turns.holds(self)
        self._paused = True
        self._pauses.begin(self)
