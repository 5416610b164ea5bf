"""One step under way in which parts hold nothing.

forward     a part runs as it is, without a derivative        its results are those of the step
backward    it gives zeros as gradients                       in the shapes of its inputs
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef

from pgmo.error_frames import clear_backward_frames
from pgmo.recompute.capture.compat import flatten, saving_hooks, storage_key, version_of
from pgmo.recompute.capture.flat import PLAIN, distinct
from pgmo.recompute.capture.objects import opened
from pgmo.recompute.capture.taking.meter import Meter
from pgmo.recompute.parts.layouts import Layout, layout, strides_of_gradients
from pgmo.recompute.parts.trace import Life, PartCall, StepTrace
from pgmo.recompute.runtime.call import CapturedCall

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


class ProbeRun:
    """One step of a probe, while it runs."""

    def __init__(self, meter: Meter | None) -> None:
        self.meter, self.hooks = meter, saving_hooks()
        self.trace = StepTrace()
        self.given: set[int] = set()
        self.objections: dict[nn.Module, str] = {}
        self.versions: list[tuple[nn.Module, Tensor, int]] = []
        self.nodes: list[Any] = []
        self.layouts: list[tuple[int, list[Layout | None]]] = []
        self.numbers: Counter[nn.Module] = Counter()
        self._anchor = torch.zeros(0, requires_grad=True)
        self._region = 0
        self._lives: dict[int, tuple[Life, StorageWeakRef]] = {}

    def part(
        self,
        module: nn.Module,
        path: str,
        record: CapturedCall,
        forward: Callable[..., Any],
        arguments: Arguments,
    ) -> Any:
        """Runs a part."""
        given = distinct(flatten(arguments)[0])
        versions = [version_of(one) for one in given]
        self._enter()
        lives = [self._life(one) for one in given]
        made_lives: list[Life | None] = []
        number = len(self.trace.calls)
        self.trace.calls.append(
            PartCall(module, path, self.numbers[module], record, lives, made_lives)
        )
        self.numbers[module] += 1
        forwarded = _Forwarded(forward, arguments, record.differentiable)
        results: Any = _Part.apply(self, number, forwarded, self._anchor, *given)  # type: ignore[no-untyped-call]
        made = forwarded.with_passed(results)
        if [version_of(one) for one in given] != versions:
            self.objections[module] = "it writes into what it is given"
        known = {storage_key(one) for one in given} | self.given
        if any(storage_key(one) in known for one in results):
            self.objections[module] = "it returns a view of what it is given"
        made_lives += [self._life(one) for one in made]
        if self.meter is None:
            self.nodes.append(next((one.grad_fn for one in results if one.requires_grad), None))
            self.versions += [(module, one, version_of(one)) for one in (*given, *made)]
        nested = record.nested(made)
        del results, made, given, forwarded
        self._mark("region")
        return nested

    def turn(self) -> None:
        """The backward pass begins."""
        self._look()
        self._region += 1
        self._mark("region")

    def close(self) -> None:
        """The step is over."""
        self._look()

    def begins(self, number: int, gradients: list[Tensor | None]) -> None:
        """The derivative of a call begins."""
        self._enter()
        self.trace.backward.append((number, tuple(one is not None for one in gradients)))
        self.layouts.append((number, [None if one is None else layout(one) for one in gradients]))

    def ends(self) -> None:
        """It is over."""
        self._mark("region")

    def _enter(self) -> None:
        self._look()
        self._region += 1
        self._mark("part")

    def _mark(self, label: str) -> None:
        if self.meter is not None:
            with self.meter.section(label):
                pass

    def _look(self) -> None:
        for key, (life, reference) in list(self._lives.items()):
            if reference.expired():  # type: ignore[no-untyped-call]
                life.death = self._region
                del self._lives[key]

    def _life(self, tensor: Tensor) -> Life | None:
        key = storage_key(tensor)
        if key in self.given:
            return None
        if key not in self._lives:
            storage = tensor.untyped_storage()
            reference = StorageWeakRef(storage)  # type: ignore[no-untyped-call]
            self._lives[key] = Life(storage.nbytes()), reference
        return self._lives[key][0]


class _Forwarded:
    """A part's forward pass as it is."""

    def __init__(
        self, forward: Callable[..., Any], arguments: Arguments, differentiable: tuple[bool, ...]
    ) -> None:
        self._forward, self._arguments = forward, arguments
        self._differentiable = differentiable
        self._passed: dict[int, Tensor] = {}  # results that are arguments

    def __call__(self) -> list[Tensor]:
        """Its results that it has made."""
        arguments, keywords = self._arguments
        with torch.no_grad():
            returned = self._forward(*arguments, **keywords)
        own = {id(one) for one in flatten(self._arguments)[0] if isinstance(one, Tensor)}
        leaves = flatten(opened(returned, PLAIN))[0]
        made = [one for one in leaves if isinstance(one, Tensor)]
        self._passed = {at: one for at, one in enumerate(made) if id(one) in own}
        return [one for at, one in enumerate(made) if at not in self._passed]

    @property
    def differentiable(self) -> list[bool]:
        """Which of them have a derivative."""
        return [flag for at, flag in enumerate(self._differentiable) if at not in self._passed]

    def with_passed(self, made: tuple[Tensor, ...]) -> list[Tensor]:
        """All results, in order."""
        found = list(made)
        for at in sorted(self._passed):
            found.insert(at, self._passed[at])
        return found


class _Part(torch.autograd.Function):
    """A part that holds nothing; its gradients are zeros."""

    @staticmethod
    def forward(
        ctx: Any, run: ProbeRun, number: int, forward: _Forwarded, anchor: Tensor, *given: Tensor
    ) -> Any:
        made = forward()
        ctx.run, ctx.number, ctx.wanted = run, number, forward.differentiable
        plain = [one for one, flag in zip(made, ctx.wanted, strict=True) if not flag]
        ctx.mark_non_differentiable(*plain)
        ctx.set_materialize_grads(False)
        strides = strides_of_gradients(run.trace.calls[number].record.planned.captured, len(given))
        ctx.looks = [
            (one.shape, stride or one.stride(), one.dtype, one.device)
            for one, stride in zip(given, strides, strict=True)
        ]
        return tuple(made)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        came = [one for one, flag in zip(gradients, ctx.wanted, strict=True) if flag]
        ctx.run.begins(ctx.number, came)
        needed = ctx.needs_input_grad[4:]
        made = [
            torch.empty_strided(shape, stride, dtype=kind, device=device).zero_()
            if wanted
            else None
            for (shape, stride, kind, device), wanted in zip(ctx.looks, needed, strict=True)
        ]
        ctx.run.ends()
        return (None, None, None, None, *made)


clear_backward_frames(_Part._backward_cls)
