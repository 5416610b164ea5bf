"""Calls of a model whose backward pass has not begun, and the bytes that they hold."""

from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakSet


class PendingCall:
    """Call that waits for its backward pass, and the bytes that it holds."""

    def __init__(self, held: int) -> None:
        self.held = held


class PendingCalls:
    """Waiting calls of one model, of any kind; `warned` is whether the user knows of several."""

    def __init__(self) -> None:
        self.warned = False
        self._calls: WeakSet[PendingCall] = WeakSet()

    def __len__(self) -> int:
        return len(self._calls)

    @property
    def held(self) -> int:
        """Bytes that all waiting calls hold."""
        return sum(one.held for one in self._calls)

    def add(self, nodes: Iterable[Any], held: int, begin: Callable[[], None]) -> PendingCall:
        """Add a call until its results are freed or its backward pass begins, which calls `begin`.

        The returned call lives as long as its results.
        """
        call = PendingCall(held)
        self._calls.add(call)

        def begun(_gradients: object) -> None:
            if call in self._calls:
                self._calls.discard(call)
                begin()

        for node in nodes:
            node.register_prehook(begun)
        return call
