"""Runs a step of which nothing stays: to find parts, or to measure what lies between them.

find       captures submodules where they are called, the outermost first; looks whether what
was captured computes the same bits
measure    parts hold nothing (`run`), and what lies between them runs as ever
"""

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from pgmo.errors import GraphError
from pgmo.recompute.capture.compat import (
    flatten,
    saving_hooks,
    storage_key,
    unflatten,
    version_of,
    without_tracing,
)
from pgmo.recompute.capture.flat import PLAIN, distinct, look_of_call, places
from pgmo.recompute.capture.joint_graph import refuse_recurrent
from pgmo.recompute.capture.objects import opened
from pgmo.recompute.capture.quiet import without_collector
from pgmo.recompute.capture.rehearse import copied, nothing_stays
from pgmo.recompute.capture.taking.meter import Meter, can_measure
from pgmo.recompute.frozen.hooks import refuse_hooks
from pgmo.recompute.frozen.modes import modes
from pgmo.recompute.frozen.values import Observing
from pgmo.recompute.parts.answers import Answers
from pgmo.recompute.parts.layouts import are_taken
from pgmo.recompute.parts.order import Edges, sums
from pgmo.recompute.parts.run import Arguments, ProbeRun
from pgmo.recompute.parts.trace import StepTrace, regions
from pgmo.recompute.runtime.call import CapturedCall, NothingToPlanError, reason_of
from pgmo.recompute.runtime.decide import Settings
from pgmo.recompute.runtime.pending import Pending

State = Literal["part", "open", "eager"]
"""Captured by itself; runs as it is, and its submodules are asked; runs as it is with all in it."""


@dataclass(eq=False)
class KnownSubmodules:
    """States of a model's submodules, as far as they are known.

    Attributes:
        states: of those that were called.
        reasons: why some are not parts, by their paths.
        differentiated: of calls of parts, which results have a gradient.
    """

    states: dict[nn.Module, State] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    differentiated: dict[tuple[nn.Module, int], tuple[bool, ...]] = field(default_factory=dict)
    records: dict[object, CapturedCall] = field(default_factory=dict)


class Probe:
    """Runs steps of one call.

    Args:
        model: whose forward method is called.
        arguments: of the call.
        settings: how parts are captured.
        known: of the submodules; more will be.

    Raises:
        GraphError: parameters and buffers cannot be exchanged for copies.
    """

    def __init__(
        self, model: nn.Module, arguments: Arguments, settings: Settings, known: KnownSubmodules
    ) -> None:
        if any(isinstance(one, torch.jit.ScriptModule) for one in model.modules()):
            raise GraphError("modules of TorchScript cannot run with copies of what they have")
        self._model, self._settings, self._known = model, settings, known
        self._leaves, self._spec = flatten(arguments)
        self._paths = {one: path for path, one in model.named_modules() if path}
        self._answers = Answers(list(self._paths), self._answer)
        self._twins = {
            id(one): nn.Parameter(one.detach(), one.requires_grad) for one in model.parameters()
        }
        self._run: ProbeRun | None = None

    def find(self) -> StepTrace:
        """Finds parts, until all that were found can be; nothing is measured.

        Raises:
            GraphError: there are none.
        """
        for _ in range(len(self._paths) + 2):  # each run but the last finds a module that cannot be
            run = self._step(None)
            if not run.trace.calls:
                raise GraphError("no submodule can be captured in which anything can be forgotten")
            if not run.objections and not self._differentiate(run):
                return run.trace
            for module, reason in run.objections.items():
                self._known.states[module] = "open"
                self._known.reasons[self._paths[module]] = reason
        raise GraphError("the model takes another way each time that it runs")

    def measure(self) -> StepTrace:
        """Measures what lies between the parts that were found.

        Raises:
            GraphError: the model takes another way each time that it runs.
        """
        device = next((one.device for one in self._model.parameters()), torch.device("cpu"))
        can = self._settings.measure and can_measure(device)
        return self._step(Meter(device) if can else None).trace

    def _differentiate(self, run: ProbeRun) -> bool:
        """Notes which results of parts have gradients; whether a part has to be captured anew."""
        came = dict(run.trace.backward)
        again = False
        for number, call in enumerate(run.trace.calls):
            key = call.module, call.number
            if number not in came or not any(came[number]):
                self._known.states[call.module] = "eager"
                again = True
            elif self._known.differentiated.get(key) != came[number]:
                again |= not all(came[number]) or key in self._known.differentiated
                self._known.differentiated[key] = came[number]
        return again

    def _step(self, meter: Meter | None) -> ProbeRun:
        tensors = distinct(self._leaves)
        devices = {one.device for one in (*tensors, *self._model.parameters())}
        run = self._run = ProbeRun(meter)
        try:
            with ExitStack() as stack:
                stack.enter_context(
                    nothing_stays(self._model, [one for one in devices if one.type == "cuda"])
                )
                stack.enter_context(self._own_parameters())
                copies = [copied(one) for one in tensors]
                run.given = {storage_key(one) for one in (*copies, *self._registered())}
                stack.enter_context(torch.enable_grad())
                if meter is not None:
                    gc.collect()
                    stack.enter_context(without_collector())
                    stack.enter_context(meter)
                self._forward_and_backward(run, copies)
                del copies
        finally:
            self._run = None
        count = len(run.trace.calls) + len(run.trace.backward) + 2
        run.trace.regions = regions([] if meter is None else meter.changes, count)
        return run

    def _forward_and_backward(self, run: ProbeRun, copies: list[Tensor]) -> None:
        leaves = list(self._leaves)
        for place, number in places(leaves).items():
            leaves[place] = copies[number]
        arguments, keywords = unflatten(leaves, self._spec)
        with self._answers.answering(), self._protected(run):
            returned = self._model.forward(*arguments, **keywords)
        del arguments, keywords, leaves
        results = [one for one in flatten(opened(returned, PLAIN))[0] if isinstance(one, Tensor)]
        results = [one for one in results if one.requires_grad]
        chosen = [one for one in results if one.numel() == 1] or results
        if not chosen:
            raise NothingToPlanError("nothing that the model returns has a derivative")
        if run.meter is None:
            self._object(run, chosen)
        run.turn()
        torch.autograd.backward(chosen, [torch.zeros_like(one) for one in chosen])
        run.close()
        for number, came in run.layouts:
            call = run.trace.calls[number]
            if not are_taken(call.record.planned.captured, came):
                run.objections[call.module] = (
                    "gradients come in another layout than its results have: they would be copied, "
                    "and added up in another order"
                )

    def _protected(self, run: ProbeRun) -> AbstractContextManager[object]:
        """Inside, parameters are not written, or not before that is known; it costs some time."""
        if run.meter is not None:
            return nullcontext()
        return Observing([*self._model.parameters()])

    def _object(self, run: ProbeRun, results: list[Tensor]) -> None:
        """Looks which of the parts would not compute what the model computes."""
        for module, tensor, version in run.versions:
            if version_of(tensor) != version:
                run.objections[module] = "what it is given, or returns, is written into later"
        run.versions.clear()
        edges = Edges(results)
        trained = Counter(
            id(one) for call in run.trace.calls for one in {*call.module.parameters()}
        )
        for call, node in zip(run.trace.calls, run.nodes, strict=True):
            if node not in edges:
                continue
            summed = sums(call.record.planned.captured)
            inputs = summed[len(summed) - len(call.given) :]
            owned = summed[: len(summed) - len(call.given)]
            if any(
                is_sum and trained[id(one)] + edges.of_leaf(one) > 1
                for one, is_sum in _with_sums(call.record.registered, owned)
            ):
                run.objections[call.module] = (
                    "it uses a parameter several times, which is used outside of it, too: "
                    "gradients would be added up in another order"
                )
            for place, is_sum in enumerate(inputs, 1):
                if is_sum and edges.of_input(node, place) > 1:
                    run.objections[call.module] = (
                        "it uses an input several times, which is used outside of it, too: "
                        "gradients would be added up in another order"
                    )
        run.nodes.clear()

    def _answer(
        self, module: nn.Module, forward: Callable[..., Any], given: Any, keywords: dict[str, Any]
    ) -> Any:
        run = self._run
        assert run is not None
        state = self._known.states.get(module)
        record: CapturedCall | None = None
        free = torch.is_grad_enabled() and saving_hooks() == run.hooks
        if free and state in (None, "part"):
            state, record = self._record(module, run, (given, keywords))
        if record is None:
            if state == "eager":
                with self._answers.away(module):
                    return forward(*given, **keywords)
            return forward(*given, **keywords)
        with self._answers.away(module):
            return run.part(module, self._paths[module], record, forward, (given, keywords))

    def _record(
        self, module: nn.Module, run: ProbeRun, arguments: Arguments
    ) -> tuple[State, CapturedCall | None]:
        """Captures a call, unless it was before."""
        known = self._known
        flags = known.differentiated.get((module, run.numbers[module]))
        key = (
            module,
            look_of_call(arguments),
            modes(),
            None if flags is None or all(flags) else flags,
        )
        if key in known.records:
            return "part", known.records[key]
        if run.meter is not None:
            return "open", None
        settings = part_settings(self._settings, flags)
        try:
            with self._answers.away(module), torch.enable_grad(), without_tracing():
                refuse_hooks(module)
                refuse_recurrent(module)
                record = CapturedCall(module, module.forward, arguments, settings, Pending())
            record.release()
        except NothingToPlanError:
            known.states[module] = "eager"
        except GraphError as error:
            known.states[module] = "open"
            known.reasons[self._paths[module]] = reason_of(error)
        else:
            graph = record.planned.finest().graph
            useful = next(graph.candidates(), None) is not None
            known.states[module] = "part" if useful else "eager"
            if useful:
                known.records[key] = record
                return "part", record
        return known.states[module], None

    def _registered(self) -> list[Tensor]:
        return [*self._model.parameters(), *self._model.buffers()]

    @contextmanager
    def _own_parameters(self) -> Iterator[None]:
        """Inside, parameters are others in the same memory, without hooks and gradients."""
        modules = list(self._model.modules())
        before = [dict(one._parameters) for one in modules]
        try:
            for one, parameters in zip(modules, before, strict=True):
                for name, parameter in parameters.items():
                    if parameter is not None:
                        one._parameters[name] = self._twins[id(parameter)]
                if isinstance(one, nn.RNNBase):
                    one._flat_weights = [getattr(one, name) for name in one._flat_weights_names]
            yield
        finally:
            for one, parameters in zip(modules, before, strict=True):
                one._parameters.update(parameters)
                if isinstance(one, nn.RNNBase):
                    one._flat_weights = [getattr(one, name) for name in one._flat_weights_names]
            for twin in self._twins.values():
                twin.grad = None


def part_settings(settings: Settings, flags: tuple[bool, ...] | None) -> Settings:
    """How a part is captured when nothing is planned yet."""
    return replace(
        settings,
        budget=None,
        check=False,
        observes=False,
        differentiated="all" if flags is None else flags,
        joins=False,
    )


def _with_sums(tensors: list[Tensor], sums: list[bool]) -> Iterator[tuple[Tensor, bool]]:
    """Of each parameter whether its gradient is a sum; all of them may be if names are missing."""
    if len(tensors) == len(sums):
        return zip(tensors, sums, strict=True)
    return ((one, any(sums)) for one in tensors)
