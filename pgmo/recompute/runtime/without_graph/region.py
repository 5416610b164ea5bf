"""`with pgmo.recompute.forget():` marks a region of a forward pass whose results are not kept."""

import itertools
from contextlib import ContextDecorator, ExitStack

import torch

from pgmo.recompute.capture.compat import is_capturing, traced_graph
from pgmo.recompute.capture.flat import len_of_graph, mark_nodes
from pgmo.recompute.capture.joint_graph import FORGET
from pgmo.recompute.runtime.without_graph.tape import Tape

_numbers = itertools.count(1)


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

    def __init__(self) -> None:
        self._open: list[tuple[int, int, ExitStack]] = []

    def __enter__(self) -> "forget":
        stack = ExitStack()
        captured = is_capturing() or torch.compiler.is_compiling()
        if torch.is_grad_enabled() and not captured:
            tape = Tape()
            stack.enter_context(torch.autograd.graph.saved_tensors_hooks(tape.pack, tape.unpack))
            stack.enter_context(tape)
        self._open.append((next(_numbers), len_of_graph(), stack))
        return self

    def __exit__(self, *_error: object) -> None:
        number, first, stack = self._open.pop()
        stack.close()
        if traced_graph() is not None:
            mark_nodes(first, FORGET, number)
