"""Choice of the thread whose iterations a session counts.

    one after the other   A A A|  B B B|  A A A|        thread pools, a thread for each epoch
    at the same time      A B A A B|A B A|B ...         a sweep, an actor and a learner

Iterations repeat only if each is the work of one thread, so the session follows one thread, the
*owner*. A second thread that ends an iteration becomes the owner if all its requests came after the
owner's requests. If the requests overlap, the second thread bypasses the session: its iterations
are not counted, and its requests get no slots. The second thread becomes the owner when the owner
has exited, or has ended no iteration while the second thread ended several.

Threads of backward passes request memory, too, but end no iterations.
"""

import threading
from collections import Counter
from collections.abc import Callable

from pgmo import _core
from pgmo.allocator import heuristics
from pgmo.allocator.session.threads.pauses import Pauses
from pgmo.errors import SessionError

OVERLAP = (
    "several threads train at the same time: slots serve one thread; pages or the framework's own "
    "allocator serve the other threads"
)


class Turns:
    """Choice of the thread whose boundaries count. Use inside `exclusive`.

    The user is warned once if threads train at the same time.
    """

    def __init__(
        self, engine: _core.Engine, warn: Callable[[str], object], paused: Pauses | None = None
    ) -> None:
        self._engine = engine
        self._paused = paused or Pauses(engine)
        self._warn = warn
        self._owner: threading.Thread | None = None
        self._inside: set[threading.Thread] = set()  # inside `iteration()`
        self._bypassing: set[threading.Thread] = set()
        self._calls: Counter[threading.Thread] = Counter()  # since the owner's last boundary
        self._pauses: dict[object, threading.Thread] = {}
        self._delegated: set[threading.Thread] = set()
        self._of_all: set[object] = set()  # pauses that stop the whole engine
        self._pauses_one_thread = False  # whether only one thread is paused while another continues
        self._whole = True
        self._train_together = False
        self._passing: threading.Thread | None = None  # thread whose iterations the engine ends

    # --- iterations -----------------------------------------------------------------------------

    def begin_iteration(self) -> None:
        """Begin an `iteration()`. Raise `SessionError` inside another iteration or a pause."""
        self._count_passed_steps()
        me = self._caller("begin")
        if me in self._inside:
            raise SessionError(
                "session.iteration() was entered inside another iteration; end the outer "
                "iteration first"
            )
        self._calls[me] += 1
        owner_is_inside = self._owner in self._inside
        self._inside.add(me)
        if owner_is_inside:
            self._bypass(me)
        elif me not in self._bypassing or self._owner is None or self._has_waited(me):
            self._follow(me)
            self._whole = True  # the session sees all requests of the iteration

    def leave_iteration(self, thread: threading.Thread) -> bool:
        """End an `iteration()`; return whether the session counts it."""
        self._inside.discard(thread)
        return thread is self._owner

    def ends_iteration(self) -> bool:
        """End the calling thread's iteration by `step()`; return whether the session counts it."""
        me = threading.current_thread()
        if me is self._owner and self._is_alone:
            if self._passing is not me:
                self._passing = me
                self._engine.let_steps_pass(me.native_id or 0)
            return True
        self._count_passed_steps()
        me = self._caller("end")
        if me in self._inside:
            raise SessionError(
                "session.step() was called inside session.iteration(), which ends the iteration "
                "by itself; use one of the two"
            )
        self._calls[me] += 1
        if self._owner is None or self._owner is me:
            self._follow(me)
        elif self._owner in self._inside:
            self._bypass(me)
            return False
        else:
            return self._takes_over(self._owner, me)
        return True

    @property
    def follows_another(self) -> bool:
        """Return whether another thread is the owner, is alive, and is not inside `iteration()`."""
        owner = self._owner
        if owner is None or owner is threading.current_thread() or owner in self._inside:
            return False
        return owner.is_alive()

    def running(self) -> threading.Thread | None:
        """Return the thread inside a counted `iteration()`, or None."""
        return self._owner if self._owner in self._inside else None

    def require_no_iteration(self, call: str, *, sleeps: bool) -> None:
        """Raise `SessionError` if a running iteration may use the memory that a call frees.

        With `sleeps`, the call frees memory that any thread may use.
        """
        inside = self.running()
        if sleeps and inside not in (None, threading.current_thread()):
            raise SessionError(
                f"{call} was to put memory to sleep while {inside.name} is inside "
                "session.iteration(), which may use this memory; call it after the iteration"
            )
        if self.is_inside:
            raise SessionError(
                f"{call} was called inside an iteration, which may use the memory that it would "
                "give back; call it between two iterations"
            )

    @property
    def is_inside(self) -> bool:
        """Return whether the calling thread is inside `iteration()` or a wrapped call."""
        return threading.current_thread() in self._inside

    @property
    def is_paused(self) -> bool:
        """Return whether the calling thread is inside `pause()`."""
        return threading.current_thread() in self._pauses.values()

    @property
    def _is_alone(self) -> bool:
        """Return whether no other thread has ended iterations recently or bypasses the session."""
        others = self._calls or self._inside or self._bypassing
        return not (others or self._pauses or self._delegated)

    def whole(self) -> bool:
        """Return whether the session saw all requests of this iteration; reset for the next one."""
        whole, self._whole = self._whole, True
        return whole

    def _takes_over(self, owner: threading.Thread, me: threading.Thread) -> bool:
        active = {thread: rest for thread, *rest in self._engine.threads()}
        theirs, mine = active.get(owner.native_id or 0), active.get(me.native_id or 0)
        if me in self._bypassing:
            takes_over = theirs is None and self._has_waited(me)
        elif theirs is None:
            takes_over = True
        elif mine is None:  # no requests here: its iterations are on another device
            takes_over = self._has_waited(me)
        else:
            tail = heuristics.current.tail_share * mine[2]
            takes_over = theirs[1] <= mine[0] and theirs[2] <= tail
            if not takes_over:
                self._bypass(me)
        if takes_over:
            self._follow(me)
        return takes_over

    def _has_waited(self, me: threading.Thread) -> bool:
        return self._calls[me] >= heuristics.current.shortest_wait

    def _follow(self, me: threading.Thread) -> None:
        self._owner = me
        self._calls.clear()
        if me in self._bypassing:
            self._bypassing.discard(me)
            self._update(me)
            self._whole = False  # the thread's earlier requests bypassed the session
        if others := {token for token in self._of_all if self._pauses[token] is not me}:
            self._pauses_one_thread = True
            self._serve_again(others)
            self._whole = False

    def _bypass(self, me: threading.Thread) -> None:
        if me in self._bypassing:
            return
        self._bypassing.add(me)
        self._update(me)
        if not self._train_together:
            self._train_together = True
            self._warn(OVERLAP)

    def _caller(self, what: str) -> threading.Thread:
        self._forget_ended()
        me = threading.current_thread()
        if self._pauses and me in self._pauses.values():
            raise SessionError(
                f"an iteration cannot {what} inside session.pause(); leave the pause first"
            )
        return me

    def _forget_ended(self) -> None:
        # Do this before another thread bypasses the session: the system may reuse the id of a
        # thread that has ended.
        if self._owner is not None and not self._owner.is_alive():
            self._owner = None
            self._pauses_one_thread = False
        if not self._delegated and not self._inside:
            return
        for ended in [one for one in (*self._delegated, *self._inside) if not one.is_alive()]:
            self._inside.discard(ended)
            self._bypassing.discard(ended)
            self._update(ended)

    def _count_passed_steps(self) -> None:
        if self._passing is not None:
            self._passing = None
            self._engine.let_steps_pass(0)

    # --- pauses ---------------------------------------------------------------------------------

    def pause(self) -> object:
        """Begin a pause on the calling thread; return the pause's token for `resume`.

        The pause stops the whole engine, because an evaluation may use several threads. Once
        another thread continues its iterations, only the calling thread is paused.
        """
        self._count_passed_steps()
        self._forget_ended()
        me, token = threading.current_thread(), object()
        self._pauses[token] = me
        self._update(me)
        elsewhere = self._owner is not None and self._owner is not me
        self._pauses_one_thread = self._pauses_one_thread or (
            elsewhere and self._owner in self._inside
        )
        if not (elsewhere and self._pauses_one_thread):
            self._of_all.add(token)
            self._paused.begin(self)
        return token

    def resume(self, token: object) -> None:
        """End a pause. Any thread may call this."""
        thread = self._pauses.pop(token, None)
        if thread is not None:
            self._update(thread)
            self._serve_again({token})

    def _serve_again(self, tokens: set[object]) -> None:
        if self._of_all & tokens:
            self._of_all -= tokens
            if not self._of_all:
                self._paused.end(self)

    def _update(self, thread: threading.Thread) -> None:
        wanted = thread.is_alive() and (
            thread in self._bypassing or thread in self._pauses.values()
        )
        if wanted == (thread in self._delegated) or thread.native_id is None:
            return
        self._engine.delegate_thread(thread.native_id, wanted)
        (self._delegated.add if wanted else self._delegated.discard)(thread)

    # --- the end --------------------------------------------------------------------------------

    def close(self) -> None:
        """Undo all bypasses and pauses in the engine."""
        self._count_passed_steps()
        self._bypassing.clear()
        self._pauses.clear()
        self._inside.clear()
        self._owner = None
        for thread in set(self._delegated):
            self._update(thread)
        self._serve_again(set(self._of_all))
