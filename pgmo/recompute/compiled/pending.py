"""Calls of a model that wait for their backward pass."""

from collections.abc import Iterable
from typing import Any
from weakref import WeakSet

from pgmo.user_warnings import warn_user


class _PendingCall:
    """Token of a waiting call, which lives as long as the call's results."""


class PendingCalls:
    """Calls of one model, of any kind, that wait for their backward pass."""

    def __init__(self) -> None:
        self._calls: WeakSet[_PendingCall] = WeakSet()
        self._is_warned = False

    def add(self, nodes: Iterable[Any]) -> None:
        """Add a call until its results, with these autograd nodes, are freed or differentiated."""
        call = _PendingCall()
        self._calls.add(call)

        def begun(_gradients: object) -> None:
            self._calls.discard(call)

        for node in nodes:
            node.register_prehook(begun)

    def warn(self) -> None:
        """Warn, once per model, if a call waits although the next call begins."""
        if not self._calls or self._is_warned:
            return
        self._is_warned = True
        warn_user(
            "the model is called again before the backward pass of an earlier call whose results "
            "are live, so the saved values of both calls are live. The budget covers one call with "
            "its backward pass. Concatenate the inputs for one call (torch.cat), call backward() "
            "or free the results before the next call, or give a smaller budget"
        )
