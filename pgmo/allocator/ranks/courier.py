"""Asks the store of a process group, without ever waiting for it longer than was said.

A store's server lives in one of the processes. That one may end, its machine may vanish, and
calls of a store know no limit of time then. So they are made on a thread of their own, over a
connection of their own: whoever waits in the program's, as NCCL may, holds nobody up here, nor is
held up.
"""

import os
import queue
import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from pgmo.allocator.ranks.world import process_group

T = TypeVar("T")

Call = Callable[[], None]


class UnreachableError(Exception):
    """The store has not answered, or not in time."""


class Courier:
    """Calls of one store, one after the other.

    Args:
        store: of the process group, or any other `torch.distributed.Store`. It is not kept alive,
            for its server lives as long as it does.

    Example:
        >>> Courier(store).ask(lambda store: store.add("seen", 1), seconds=5)  # doctest: +SKIP
        1
    """

    def __init__(self, store: Any) -> None:
        self._store = weakref.ref(store)
        self._process = os.getpid()
        self._calls: queue.SimpleQueue[Call] = queue.SimpleQueue()
        self._own: Any = None
        self._lost = False
        threading.Thread(target=self._work, name="pgmo-courier", daemon=True).start()

    @property
    def lost(self) -> bool:
        """Whether an answer has failed to come: nothing more is asked, here or in a fork."""
        return self._lost or os.getpid() != self._process

    def ask(self, question: Callable[[Any], T], *, seconds: float) -> T:
        """What a call of the store returns.

        Raises:
            UnreachableError: when it fails, or takes longer than so many seconds; then the courier
                is lost.
        """
        if self.lost:
            raise UnreachableError("the store is not asked any more")
        done = threading.Event()
        answers: list[T] = []

        def call() -> None:
            try:
                answers.append(question(self._connection()))
            except Exception:  # of whatever kind of store it is
                self._lost = True
            done.set()

        self._calls.put(call)
        if not done.wait(seconds) or not answers:
            self._lost = True
            raise UnreachableError(f"the store gave no answer within {seconds:g} s")
        return answers[0]

    def leave(self) -> None:
        """Asks nothing any more."""
        self._lost = True

    def _connection(self) -> Any:
        """The store, over a connection of its own where it can have one."""
        if self._own is not None:
            return self._own
        store = self._store()
        clone = getattr(store, "clone", None)  # not in PyTorch 2.6
        if clone is not None:
            self._own = clone()
        return self._own or store

    def _work(self) -> None:
        while True:
            self._calls.get()()


def courier() -> Courier | None:
    """The one for the default process group; None without one, or where nobody could be asked.

    A fake process group has one process, whatever it says, and a store without contents.

    Example:
        >>> courier() is None
        True
    """
    group = process_group()
    if group is None or group.get_world_size() < 2 or "fake" in group.get_backend():
        return None
    try:
        # PyTorch has public names for neither, only for what they were made from.
        own = group.distributed_c10d._get_default_group()
        store = group.distributed_c10d._get_default_store()
    except (AttributeError, KeyError, ValueError):
        return None
    if not _known or _known[0][0]() is not own:
        _known[:] = [(weakref.ref(own), Courier(store))]
    return _known[0][1]


_known: list[tuple[weakref.ref[Any], Courier]] = []  # the latest
