"""Calls of a model whose backward pass has not begun."""

from collections.abc import Iterable
from typing import Any
from weakref import WeakSet

from pgmo.user_warnings import warn_user


class _PendingCall:
    """Call that waits for its backward pass; it lives as long as its results."""


class PendingCalls:
    """Waiting calls of one model, of any kind."""

    def __init__(self) -> None:
        self._calls: WeakSet[_PendingCall] = WeakSet()
        self._is_warned = False

    def add(self, nodes: Iterable[Any]) -> None:
        """Add a call until its results are freed, or the backward pass of their nodes begins."""
        call = _PendingCall()
        self._calls.add(call)

        def begun(_gradients: object) -> None:
            self._calls.discard(call)

        for node in nodes:
            node.register_prehook(begun)

    def warn(self) -> None:
        """Warn once if a call waits while another one begins."""
        if not self._calls or self._is_warned:
            return
        self._is_warned = True
        warn_user(
            "the model is called again before the backward pass of an earlier call, whose saved "
            "values are held until then. The budget is that of one call with its backward pass. "
            "Give the inputs to one call (torch.cat), call backward() before the next call, or "
            "give a smaller budget"
        )
