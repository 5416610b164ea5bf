"""`with pgmo.recompute.forget():` marks a region of a forward pass whose results are not kept.

Dynamo puts calls of `_enter` and `_leave` into the graph that it captures. They run when
AOTAutograd traces that graph, and mark the nodes which were added between them.
"""

import itertools
import threading
from contextlib import ContextDecorator, ExitStack
from functools import partial
from typing import TYPE_CHECKING

import torch

from pgmo.recompute.capture.compat import is_capturing
from pgmo.recompute.capture.graphs import len_of_graph, mark_nodes
from pgmo.recompute.capture.joint_graph import FORGET
from pgmo.recompute.runtime.without_graph.tape import Tape

if TYPE_CHECKING:
    from collections.abc import Callable

_numbers = itertools.count(1)


class _Open(threading.local):
    """Functions that end the thread's open regions."""

    def __init__(self) -> None:
        self.ends: list[Callable[[], object]] = []


_open = _Open()


class forget(ContextDecorator):  # noqa: N801  (it is used like a function)
    """Marks a region of a forward pass: the backward pass computes its insides again.

    What operators in the region save for the backward pass is not kept. When the first of it is
    needed, the operators are run again from what the region was given; random ones keep their
    results, and nothing that lies outside of the region is written a second time. So gradients and
    buffers are the same bits, whatever Python code is in the region: that code does not run again.

    In a model given to `pgmo.recompute` the region is marked in the captured graph, and always
    forgotten if the budget allows it; with `budget=None` nothing else is. In any other model it
    works by itself, at the price of a Python call for each operator in the region. Under
    `torch.compile` it does nothing.

    Example:
        >>> def forward(self, x):  # doctest: +SKIP
        ...     with pgmo.recompute.forget():
        ...         hidden = functional.gelu(self.widen(self.norm(x)))
        ...     return x + self.narrow(hidden)
    """

    def _recreate_cm(self) -> "forget":
        """Return another one, as Dynamo enters none that it was given; for marked functions."""
        return forget()

    def __enter__(self) -> "forget":
        _enter()
        return self

    def __exit__(self, *_error: object) -> None:
        _leave()


@torch.compiler.allow_in_graph  # type: ignore[untyped-decorator]
@torch.compiler.disable  # type: ignore[untyped-decorator]
def _enter() -> None:
    if is_capturing():
        _open.ends.append(partial(mark_nodes, len_of_graph(), FORGET, next(_numbers)))
        return
    if _is_looking():
        return
    stack = ExitStack()
    if torch.is_grad_enabled():
        tape = Tape()
        stack.enter_context(torch.autograd.graph.saved_tensors_hooks(tape.pack, tape.unpack))
        stack.enter_context(tape)
    _open.ends.append(stack.close)


@torch.compiler.allow_in_graph  # type: ignore[untyped-decorator]
@torch.compiler.disable  # type: ignore[untyped-decorator]
def _leave() -> None:
    if is_capturing() or not _is_looking():
        _open.ends.pop()()


def _is_looking() -> bool:
    """Return whether Dynamo calls a function to look what it returns."""
    key = torch._C._TorchDispatchModeKey.FAKE
    return torch._C._get_dispatch_mode(key) is not None
