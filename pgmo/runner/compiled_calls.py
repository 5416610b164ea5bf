"""Detection of optimizers that have stepped inside compiled code.

A compiled step makes no observable calls, but it writes to parameters. Code that clips or averages
parameters writes to them, too. So optimizers whose steps were seen outside of compiled code are not
checked.
"""

import threading
import weakref
from collections.abc import Iterable
from typing import Any

_SAMPLES = 4
"""Maximum number of parameters checked per optimizer, at each compiled call."""


class CompiledCalls:
    """Calls of compiled code that are in progress.

    Attributes:
        threads: identifiers of the threads that are inside compiled code.
    """

    def __init__(self) -> None:
        self.threads: set[int] = set()
        self._before = threading.local()
        self._seen: weakref.WeakSet[Any] = weakref.WeakSet()  # steps outside of compiled code
        self._checked: weakref.WeakKeyDictionary[Any, tuple[int, list[_ParameterIndex]]] = (
            weakref.WeakKeyDictionary()
        )

    def seen(self, optimizer: Any) -> None:
        """Record a step of the optimizer outside of compiled code."""
        self._seen.add(optimizer)

    def enter(self, optimizers: Iterable[Any]) -> None:
        """Begin a compiled call of this thread, in which these optimizers may step."""
        self.threads.add(threading.get_ident())
        self._before.versions = [
            (one, self._versions(one)) for one in tuple(optimizers) if one not in self._seen
        ]

    def leave(self) -> list[Any]:
        """End this thread's compiled call; return the optimizers whose parameters changed."""
        self.threads.discard(threading.get_ident())
        before = self._before.__dict__.pop("versions", ())
        return [one for one, versions in before if self._versions(one) != versions]

    def _versions(self, optimizer: Any) -> list[int]:
        """Return the write counters of a few of the optimizer's parameters."""
        groups = [group["params"] for group in getattr(optimizer, "param_groups", ())]
        count = sum(map(len, groups))
        known, indices = self._checked.get(optimizer, (-1, []))
        if known != count:
            indices = _trained(groups)
            # Without gradients, it is unknown which parameters will get gradients.
            if any(groups[group][at].grad is not None for group, at in indices):
                self._checked[optimizer] = count, indices
        return [groups[group][at]._version for group, at in indices if at < len(groups[group])]


_ParameterIndex = tuple[int, int]
"""Index of a parameter group, and of a parameter in it. Unlike references, indices keep no tensor
alive."""


def _trained(groups: list[list[Any]]) -> list[_ParameterIndex]:
    """Return the indices of a few parameters to which a step probably writes."""
    # Parameters from inference mode have no write counter.
    able = [
        (one, (group, at))
        for group, parameters in enumerate(groups)
        for at, one in enumerate(parameters)
        if one.requires_grad and not one.is_inference()
    ]
    able = [(one, index) for one, index in able if one.grad is not None] or able
    return [index for _, index in able[:: max(1, -(-len(able) // _SAMPLES))]]
