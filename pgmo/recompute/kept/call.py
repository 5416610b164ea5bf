"""A call whose step was captured by an earlier process: written once it has run, read later.

settled   the first step was measured, and the gradients were those expected: written
read      key, files, and what Python code has read are the same: nothing is captured
"""

import gc
import json
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from torch import Tensor, fx, nn

from pgmo.errors import GraphError, PgmoError
from pgmo.recompute.capture.compat import (
    fakes,
    flatten,
    storage_key,
    unflatten,
)
from pgmo.recompute.capture.flat import distinct
from pgmo.recompute.kept import store
from pgmo.recompute.kept.descriptors import load_spec, places, save_spec
from pgmo.recompute.kept.function import Function, StepSignature
from pgmo.recompute.kept.plan_data import plan_data, planned_step
from pgmo.recompute.kept.program import SerializedProgram, argument, valued, written
from pgmo.recompute.kept.reads import described, restored
from pgmo.recompute.kept.surroundings import check_files, files, key
from pgmo.recompute.kept.unfit import UnfitError
from pgmo.recompute.runtime.call import CapturedCall
from pgmo.recompute.runtime.contexts import compiled_context
from pgmo.recompute.runtime.decide import PlannedStep, Settings
from pgmo.recompute.runtime.offload.host import Host
from pgmo.recompute.runtime.pending import Pending

if TYPE_CHECKING:
    from pgmo.recompute.runtime.execute import StepCompiler

BROKEN = (UnfitError, PgmoError, LookupError, TypeError, ValueError, AttributeError, SyntaxError)
"""What a file may lead to that has another content than thought; the step is then captured."""

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


class KeptCall:
    """A call as `CapturedCall`, of data that an earlier process has written.

    Args:
        module: the model.
        arguments: positional and keyword arguments of the call.
        data: as it was written.
        pending: the model's calls that wait for their backward pass.

    Raises:
        UnfitError: something is not as it was.
    """

    was_kept = True

    def __init__(
        self, module: nn.Module, arguments: Arguments, data: Any, pending: Pending
    ) -> None:
        self._guard = restored(data["reads"], module)
        self._module, self._data, self._pending = module, data, pending
        signature = StepSignature.of_data(data["layout"])
        forward = SerializedProgram.of_data(data["forward"])
        narrow = SerializedProgram.of_data(data["backward"])
        host = Host(int(data["host"]))
        self._function = Function(module, signature, forward, narrow, self._whole, host)
        self._spec = load_spec(data["results"]["spec"])
        self._leaves = [valued(one, {}) for one in data["results"]["leaves"]]
        self._places = data["results"]["places"]
        given = (*distinct(flatten(arguments)[0]), *module.parameters(), *module.buffers())
        self.devices = frozenset(one.device for one in given)
        self.measured: int | None = data["measured"]

    def _whole(self) -> SerializedProgram:
        """The backward pass for all gradients, as text until somebody needs it."""
        return SerializedProgram.of_data(
            json.loads(self._data["whole"] or "null") or self._data["backward"]
        )

    @cached_property
    def planned(self) -> PlannedStep:
        """What was decided."""
        return planned_step(json.loads(self._data["plan"]))

    @property
    def model(self) -> str:
        """Name of the model's class."""
        return type(self._module).__name__

    @property
    def device(self) -> str:
        """Where the model's parameters are, such as "cuda:0"."""
        first = next(self._module.parameters(), None)
        return "cpu" if first is None else str(first.device)

    @property
    def has_checks(self) -> bool:
        """Whether the forward pass may end with a `DiffersError`."""
        return bool(self._data["checks"])

    def check(self) -> None:
        """Looks whether what Python code has read is as it was.

        Raises:
            GraphError: something is not, or other outputs are differentiated than before.
        """
        if self._function.surprised:
            raise GraphError("other outputs are differentiated than when the step was kept")
        self._guard.check()

    def release(self) -> None:
        """It holds no example."""

    def __call__(self, tensors: list[Tensor]) -> Any:
        """Runs the forward pass.

        Raises:
            DiffersError: a value of a tensor is not what was assumed.
        """
        results = self._function(tensors)
        context = compiled_context(results)
        if context is not None:
            self._pending.add(context, self._data["held"])
        leaves = list(self._leaves)
        for place, one in zip(self._places, results, strict=False):
            leaves[place] = one
        return unflatten(leaves, self._spec)


def read(
    module: nn.Module,
    arguments: Arguments,
    settings: Settings,
    pending: Pending,
    find: Callable[[str], Any] = store.read,
) -> KeptCall | None:
    """What was kept of such a call, if everything is as it was.

    Args:
        module: the model.
        arguments: positional and keyword arguments of the call.
        settings: how it is planned.
        pending: the model's calls that wait for their backward pass.
        find: gives what was written under a key, or None.
    """
    collected = gc.isenabled()
    gc.disable()  # thousands of small lists, none of which is garbage
    try:
        data = find(key(module, arguments, settings.identity()))
        if data is None:
            return None
        check_files(data["files"])
        return KeptCall(module, arguments, data, pending)
    except BROKEN:
        return None
    finally:
        if collected:
            gc.enable()


def write(
    module: nn.Module, arguments: Arguments, settings: Settings, call: CapturedCall
) -> str | None:
    """Keeps a call that has settled; why not, if it cannot be."""
    try:
        name, data = step_data(module, arguments, settings, call)
        data["files"] = files(module, call.guard.codes)
    except UnfitError as error:
        return str(error)
    store.write(name, data)
    return None


def step_data(
    module: nn.Module, arguments: Arguments, settings: Settings, call: CapturedCall
) -> tuple[str, dict[str, Any]]:
    """The key of a call that has settled, and what is written of it; no files are named yet.

    Raises:
        UnfitError: it cannot be kept; says why.
    """
    try:
        return key(module, arguments, settings.identity()), _data(module, call)
    except UnfitError:
        raise
    except BROKEN as error:
        raise UnfitError(str(error)) from error


def _data(module: nn.Module, call: CapturedCall) -> dict[str, Any]:
    step = call.step
    forward, whole, narrow = step.modules
    programs = {
        "forward": written(forward).as_data(),
        "backward": written(whole if narrow is None else narrow).as_data(),
        "whole": None if narrow is None else _text(written(whole).as_data()),
    }
    leaves, spec, tensors = call.results
    guard = call.guard
    return {
        **programs,
        "layout": _signature(step, forward, whole, narrow, len(tensors)).as_data(),
        "results": {
            "leaves": [argument(one, {}) for one in leaves],
            "spec": save_spec(spec),
            "places": tensors,
        },
        "reads": described(guard, module),
        "files": {},
        "plan": _text(plan_data(call.planned)),
        "measured": call.measured,
        "held": step.forward.net if step.forward else 0,
        "checks": step.checks,
        "host": step.host.size,
    }


def _text(data: Any) -> str:
    return json.dumps(data, separators=(",", ":"))


def _signature(
    step: "StepCompiler",
    forward: fx.GraphModule,
    whole: fx.GraphModule,
    narrow: fx.GraphModule | None,
    returned: int,
) -> StepSignature:
    found = places(forward, whole)
    if found is None:
        raise UnfitError(
            "what goes in and comes out is more than plain tensors, or PyTorch is too old to say"
        )
    inputs, writes, outputs, tangents = found
    _refuse_aliases(forward, len(writes) + outputs)
    if returned > outputs:
        raise UnfitError("results that are not results of the graph")
    names = [node.name for node in whole.graph.find_nodes(op="placeholder")]
    kinds = names[len(names) - len(tangents) :]
    expected = [index for index, name in enumerate(kinds) if name in (step.expected or ())]
    reads = None
    if narrow is not None:
        reads = [names.index(one.name) for one in narrow.graph.find_nodes(op="placeholder")]
    return StepSignature(inputs, writes, outputs, tangents, expected, reads)


def _refuse_aliases(forward: fx.GraphModule, outputs: int) -> None:
    """Results that share memory with inputs or each other are put together by AOTAutograd."""
    (last,) = forward.graph.find_nodes(op="output")
    results = [one for one in last.args[0][:outputs] if isinstance(one, fx.Node)]
    if len(results) < outputs:
        raise UnfitError("a result that is no tensor")
    seen = {one for node in forward.graph.find_nodes(op="placeholder") for one in _storages(node)}
    for node in results:
        if seen.intersection(_storages(node)):
            raise UnfitError("a result shares memory with an input or another result")
        seen.update(_storages(node))


def _storages(node: fx.Node) -> list[int]:
    return [storage_key(one) for one in fakes(node.meta.get("val"))]
