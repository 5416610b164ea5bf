"""Which optimizers have stepped in compiled code, where they call nothing that one could see.

What a step leaves behind are parameters that were written to. So are they by code that clips or
averages them: an optimizer whose steps are seen elsewhere is not looked at.
"""

import threading
import weakref
from collections.abc import Iterable
from typing import Any

_SAMPLES = 4
"""Parameters of each optimizer that are looked at: this happens around each compiled call."""


class CompiledCalls:
    """The calls of compiled code that threads are in.

    Attributes:
        threads: that are in one, by their identifiers.
    """

    def __init__(self) -> None:
        self.threads: set[int] = set()
        self._before = threading.local()
        self._seen: weakref.WeakSet[Any] = weakref.WeakSet()  # steps outside of compiled code
        self._places: weakref.WeakKeyDictionary[Any, tuple[int, list[_Place]]] = (
            weakref.WeakKeyDictionary()
        )

    def seen(self, optimizer: Any) -> None:
        """The optimizer has stepped outside of compiled code."""
        self._seen.add(optimizer)

    def enter(self, optimizers: Iterable[Any]) -> None:
        """The calling thread enters one; these are the optimizers that might step in it."""
        self.threads.add(threading.get_ident())
        self._before.versions = [
            (one, self._versions(one)) for one in tuple(optimizers) if one not in self._seen
        ]

    def leave(self) -> list[Any]:
        """The calling thread leaves it; returns the optimizers that have stepped meanwhile."""
        self.threads.discard(threading.get_ident())
        before = self._before.__dict__.pop("versions", ())
        return [one for one, versions in before if self._versions(one) != versions]

    def _versions(self, optimizer: Any) -> list[int]:
        """How often some of its parameters were written to."""
        groups = [group["params"] for group in getattr(optimizer, "param_groups", ())]
        count = sum(map(len, groups))
        known, places = self._places.get(optimizer, (-1, []))
        if known != count:
            places = _trained(groups)
            # Until there are gradients nobody knows which parameters have any.
            if any(groups[group][at].grad is not None for group, at in places):
                self._places[optimizer] = count, places
        return [groups[group][at]._version for group, at in places if at < len(groups[group])]


_Place = tuple[int, int]
"""A group of parameters, and a parameter in it: whoever kept the tensor would keep it alive."""


def _trained(groups: list[list[Any]]) -> list[_Place]:
    """Where a few of those are that a step writes to, as far as is known."""
    # Those that were made in inference mode count nothing.
    able = [
        (one, (group, at))
        for group, parameters in enumerate(groups)
        for at, one in enumerate(parameters)
        if one.requires_grad and not one.is_inference()
    ]
    able = [(one, place) for one, place in able if one.grad is not None] or able
    return [place for _, place in able[:: max(1, -(-len(able) // _SAMPLES))]]
