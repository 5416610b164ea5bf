"""Measurement of the peak of a real step, with the code between its graphs.

    forward    measured as a whole
    backward   measured as soon as the gradients of the model's results exist

The program's code between the two passes, such as a loss, is excluded. Autograd's engine uses the
profiler of the thread that calls it, so the meter must start before the engine.
"""

import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor

from pgmo.recompute.capture.compat import autograd_nodes, storage_key
from pgmo.recompute.capture.memory_use.meter import Meter, measuring_program, meter, peak_and_net
from pgmo.recompute.capture.quiet import CAPTURING, without_collector
from pgmo.recompute.compiled.dry_run.discovery import nodes_of, results_of
from pgmo.recompute.runtime.backward_passes import surround

_BEGINS = "begins"
_TRIES = 4
"""Maximum number of attempts, including attempts in steps without a backward pass."""

_OTHERS = 8
"""Maximum number of other backward passes between the two passes of a measured step."""


class StepMeasure:
    """Measurement of one step on a device.

    Attributes:
        peak: measured bytes above the level before the step; None before a measurement succeeds.
        tries: number of attempts left.
    """

    def __init__(self, device: torch.device) -> None:
        self.peak: int | None = None
        self.tries = _TRIES
        self._device = device
        self._forward: tuple[int, int] | None = None  # Peak and net bytes of the forward pass.
        self._meter: Meter | None = None
        # Bytes of the gradients of the model's results; -1 before they exist.
        self._root_bytes = -1
        self._number = 0  # Number of the last forward pass.
        self._mixed = False  # Whether the backward pass also differentiates an earlier call.
        self._leaves: frozenset[int] = frozenset()
        self._undo: Callable[[], None] = lambda: None

    def forward(self, run: Callable[[], Any], leaves: Iterable[Tensor]) -> Any:
        """Run and measure a forward pass, and prepare to measure its backward pass.

        A backward pass is measured only if it computes gradients of `leaves`, and of nothing else.
        """
        self.tries -= 1
        self._forward = None
        # Tensors that need no gradient may die, and their ids may be reused.
        self._leaves = frozenset(id(one) for one in leaves if one.requires_grad)
        with _metered(self._device) as measuring:
            returned = run()
        self.note(returned)
        if measuring is not None:
            self._forward = measuring.peak, measuring.net
            self._watch(_OTHERS)
        return returned

    def note(self, returned: Any) -> None:
        """Register the results of a forward pass, to recognize its backward pass."""
        self._number += 1
        ours, number = weakref.ref(self), self._number

        def begins(gradients: tuple[Tensor | None, ...]) -> None:
            measure = ours()
            if measure is not None:
                measure._begins(number, gradients)

        for node in nodes_of(results_of(returned)):
            node.register_prehook(begins)

    def cancel(self) -> None:
        """Stop waiting for a backward pass."""
        self._undo()

    def _watch(self, others: int) -> None:
        def around(run: Callable[[], Any], outputs: Any, more: tuple[Any, ...]) -> Any:
            measure = ours()
            return run() if measure is None else measure._backward(run, outputs, more, others)

        self._undo = undo = surround(around)
        ours = weakref.ref(self, lambda _: undo())

    def _backward(
        self, run: Callable[[], Any], outputs: Any, more: tuple[Any, ...], others: int
    ) -> Any:
        self._undo()
        found = _leaves(outputs)
        if self._leaves.isdisjoint(found):
            if others:
                self._watch(others - 1)
            return run()
        inputs = more[3] if len(more) > 3 else ()
        if inputs or not self._leaves.issuperset(found):
            return run()  # The pass computes only some gradients, or gradients of other leaves.
        self._root_bytes, self._mixed = -1, False
        with _metered(self._device) as self._meter:
            measuring = self._meter
            try:
                result = run()
            finally:
                self._meter = None
        if measuring is not None and self._root_bytes >= 0 and not self._mixed:
            self._close(measuring)
        return result

    def _begins(self, number: int, gradients: tuple[Tensor | None, ...]) -> None:
        """Record the bytes of the gradients with which a forward pass's backward pass begins."""
        if self._meter is None:
            return
        if number != self._number:
            self._mixed = True
        elif self._root_bytes < 0:
            came = {storage_key(one): one for one in gradients if one is not None}
            self._root_bytes = sum(one.untyped_storage().nbytes() for one in came.values())
            self._meter.mark(_BEGINS)

    def _close(self, measured: Meter) -> None:
        assert self._forward is not None
        peak, net = self._forward
        mark = _BEGINS, 0
        if mark in measured.changes:
            highest, _ = peak_and_net(measured.changes[measured.changes.index(mark) :])
            self.peak = max(peak, net + self._root_bytes + highest)
            self.tries = 0


@contextmanager
def _metered(device: torch.device) -> Iterator[Meter | None]:
    """Measure memory in a block; yield None if that is impossible now.

    This function never waits for another measurement, because two threads could deadlock: a
    measured program may capture, and a capture measures.
    """
    with ExitStack() as stack:
        measuring = None
        if CAPTURING.acquire(blocking=False):
            try:
                measuring = meter(device)
                if measuring is not None:
                    stack.enter_context(without_collector())
                    stack.enter_context(measuring)
                    stack.enter_context(measuring_program())
            finally:
                CAPTURING.release()
        yield measuring


def _leaves(outputs: Any) -> set[int]:
    """Return the ids of the leaves that get a gradient in a backward pass from `outputs`."""
    roots = (getattr(one, "node", None) or getattr(one, "grad_fn", None) for one in outputs)
    leaves = (getattr(node, "variable", None) for node in autograd_nodes(roots))
    return {id(leaf) for leaf in leaves if leaf is not None}
