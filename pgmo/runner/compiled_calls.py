"""Which optimizers have stepped in compiled code, where they call nothing that one could see."""

import threading
from collections.abc import Iterable
from typing import Any

_SAMPLES = 4
"""Parameters of each optimizer that are looked at: this happens around each compiled call."""


class CompiledCalls:
    """The calls of compiled code that threads are in.

    Attributes:
        threads: that are in one, by their identifiers.

    Example:
        >>> calls = CompiledCalls()
        >>> calls.enter([])
        >>> calls.leave()
        []
    """

    def __init__(self) -> None:
        self.threads: set[int] = set()
        self._before = threading.local()

    def enter(self, optimizers: Iterable[Any]) -> None:
        """The calling thread enters one; these are the optimizers that might step in it."""
        self.threads.add(threading.get_ident())
        self._before.versions = [(one, _versions(one)) for one in tuple(optimizers)]

    def leave(self) -> list[Any]:
        """The calling thread leaves it; returns the optimizers that have stepped meanwhile."""
        self.threads.discard(threading.get_ident())
        before = self._before.__dict__.pop("versions", ())
        return [one for one, versions in before if _versions(one) != versions]


def _versions(optimizer: Any) -> list[int]:
    """How often some of its parameters were written to."""
    parameters = [one for group in optimizer.param_groups for one in group["params"]]
    every = max(1, -(-len(parameters) // _SAMPLES))
    # Those that were made in inference mode count nothing.
    return [one._version for one in parameters[::every] if not one.is_inference()]
