"""What a real step of a model in parts takes at its peak, code between the parts included.

    forward    metered as a whole
    (the program's own loss)
    backward   metered by whoever calls the engine; counted from the model's results on

The engine evaluates nodes with the profiler of the thread that calls it, so a meter has to be there
before: the function through which `backward()` and `autograd.grad()` call it is another one until
the next backward pass.
"""

import functools
import gc
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pgmo.recompute.capture.compat import flatten, storage_key
from pgmo.recompute.capture.flat import PLAIN
from pgmo.recompute.capture.objects import opened
from pgmo.recompute.capture.quiet import without_collector
from pgmo.recompute.capture.taking.meter import Meter, Section, meter

_BEGINS = "begins"
_TRIES = 4
"""Steps that are measured at most, of which some have no backward pass."""


class StepMeasure:
    """Measures one step.

    Args:
        device: where the model is.

    Attributes:
        peak: bytes above those before the step; None as long as nothing was measured.
        tries: steps that may still be measured.
    """

    def __init__(self, device: torch.device) -> None:
        self.peak: int | None = None
        self.tries = _TRIES
        self._device = device
        self._forward: Section | None = None
        self._meter: Meter | None = None
        self._given = -1  # bytes of the gradients of the model's results
        self._undo: Callable[[], None] = lambda: None

    def forward(self, run: Callable[[], Any]) -> Any:
        """Runs a forward pass under a meter, and has its backward pass measured."""
        self.tries -= 1
        measuring = meter(self._device)
        if measuring is None:
            return run()
        gc.collect()
        with without_collector(), measuring:
            returned = run()
        self._forward, self._given = measuring.whole, -1
        leaves = flatten(opened(returned, PLAIN))[0]
        nodes = {one.grad_fn for one in leaves if isinstance(one, Tensor) and one.grad_fn}
        for node in nodes:
            node.register_prehook(self._begins)
        if nodes:
            self._watch()
        return returned

    def cancel(self) -> None:
        """No backward pass is waited for any longer, such as of a step that had none."""
        self._undo()

    def _watch(self) -> None:
        ours = weakref.ref(self)

        def around(run: Callable[[], Any]) -> Any:
            measure = ours()
            return run() if measure is None else measure._backward(run)

        self._undo = _around_engine(around)

    def _backward(self, run: Callable[[], Any]) -> Any:
        self._undo()
        measuring = self._meter = meter(self._device)
        if measuring is None:
            return run()
        try:
            gc.collect()
            with without_collector(), measuring:
                result = run()
        finally:
            self._meter = None
        if self._given < 0:
            self._watch()  # it was another one
        else:
            self._close(measuring)
        return result

    def _begins(self, gradients: tuple[Tensor | None, ...]) -> None:
        if self._meter is None or self._given >= 0:
            return
        came = {storage_key(one): one for one in gradients if one is not None}
        self._given = sum(one.untyped_storage().nbytes() for one in came.values())
        with self._meter.section(_BEGINS):
            pass

    def _close(self, measured: Meter) -> None:
        assert self._forward is not None
        level = highest = 0
        begun = False
        for label, change in measured.changes:
            if label == _BEGINS:
                begun, level, highest = True, 0, 0
            elif begun:
                level += change
                highest = max(highest, level)
        if begun:
            self.peak = max(self._forward.peak, self._forward.net + self._given + highest)


def _around_engine(around: Callable[[Callable[[], Any]], Any]) -> Callable[[], None]:
    """Has all backward passes run inside of a function, in the thread that calls for them.

    Args:
        around: called with what runs a backward pass, whose result it returns.

    Returns:
        What ends that.
    """
    modules: tuple[Any, ...] = (torch.autograd.graph, torch.autograd)
    before = modules[0]._engine_run_backward
    over = False

    @functools.wraps(before)
    def run_around(*arguments: Any, **keywords: Any) -> Any:
        run = functools.partial(before, *arguments, **keywords)
        return run() if over else around(run)

    def end() -> None:
        nonlocal over
        over = True
        for module in modules:
            if module._engine_run_backward is run_around:  # somebody else may have wrapped it
                module._engine_run_backward = before

    for module in modules:
        module._engine_run_backward = run_around
    return end
