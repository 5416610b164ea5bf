"""Observer of a dry run: runs the graphs, and records the memory of other code.

forward     a graph computes its outputs and saves nothing
backward    a graph returns zeros in the shapes of its inputs' gradients
"""

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef

from pgmo.recompute.calls.objects import flatten_objects
from pgmo.recompute.capture.compat import boxes_gradients, storage_key
from pgmo.recompute.capture.memory_use.meter import Meter
from pgmo.recompute.compiled.dry_run.objections import LAYOUT, ORDER, Layout, edges, layout
from pgmo.recompute.compiled.dry_run.regions import Region, StorageLife
from pgmo.recompute.compiled.graph import CompiledGraph, GradientFlags, marker

CallKey = tuple[CompiledGraph, int]
"""Graph, and the number of its earlier calls in a step."""


@dataclass(eq=False)
class GraphCall:
    """Call of a graph in a forward pass.

    Args:
        graph: the graph that was called.
        ordinal: number of the graph's earlier calls in the step.
        inputs: lifetime of each input's storage; None for storages from before the step, and for
            non-tensors.
        outputs: the same for each output.
        owners: id of each input that is a parameter; None for other inputs.
        leaves: whether each input is a leaf of autograd's graph, or no tensor.
        tangents: lifetime of each output's gradient; None if only the call's own backward pass
            holds it.
        region: number of the region that follows the call's backward pass.
    """

    graph: CompiledGraph
    ordinal: int
    inputs: list[StorageLife | None]
    outputs: list[StorageLife | None]
    owners: list[int | None]
    leaves: list[bool]
    tangents: list[StorageLife | None] = field(default_factory=list)
    region: int = -1


@dataclass(eq=False)
class Discovery:
    """Observer of a dry run.

    Args:
        meter: measures the code between graphs; None to measure nothing.
        plain: calls of graphs that run unplanned.

    Attributes:
        calls: calls of graphs that can be differentiated, in order.
        backward_calls: index of a call, and which of its outputs got a gradient, in the order of
            the backward passes.
        regions: memory of the code between graphs: one region more than calls in the forward pass,
            and one more than calls in the backward pass.
        known: keys of storages from before the step.
        differentiated: indices of the step's results that got a gradient.
        root_bytes: bytes of the gradients with which the backward pass begins.
        objections: calls that must run unplanned, with the reason; the reason is empty for calls
            without a backward pass.
    """

    meter: Meter | None
    plain: frozenset[CallKey] = frozenset()
    calls: list[GraphCall] = field(default_factory=list)
    backward_calls: list[tuple[int, GradientFlags]] = field(default_factory=list)
    regions: list[Region] = field(default_factory=list)
    known: set[int] = field(default_factory=set)
    differentiated: set[int] = field(default_factory=set)
    root_bytes: int = 0
    objections: dict[CallKey, str] = field(default_factory=dict)
    _ordinals: Counter[CompiledGraph] = field(default_factory=Counter)
    _nodes: list[Any] = field(default_factory=list)  # Autograd node of each call.
    _layouts: dict[int, list[Layout]] = field(default_factory=dict)  # Of tangents, by call.
    _is_turned: bool = False  # Whether the step's backward pass has begun.
    _region: int = 0
    _lives: dict[int, tuple[StorageLife, StorageWeakRef]] = field(default_factory=dict)

    @property
    def is_single(self) -> bool:
        """Return whether the step is one graph, and other code allocates at most `root_bytes`."""
        return len(self.calls) == len(self.backward_calls) == 1 and all(
            one.peak - one.entry <= self.root_bytes for one in self.regions
        )

    def choose(self, graph: CompiledGraph) -> int | None:
        """Count a graph's next call; return None if it runs unplanned, otherwise 0."""
        place = graph, self._ordinals[graph]
        self._ordinals[graph] += 1
        return None if place in self.plain else 0

    def ran(self, context: Any) -> None:
        """Record the last call's autograd node, and the tangents' layouts when this node runs."""
        number = len(self.calls) - 1
        self._nodes.append(context)

        def came(gradients: tuple[Tensor | None, ...]) -> None:
            self._layouts[number] = [layout(one) for one in gradients if one is not None]

        context.register_prehook(came)

    def check_sum_order(self, roots: list[Tensor]) -> None:
        """Record an objection to each call that would add up gradients in another order."""
        counts = edges(roots)
        for call, node in zip(self.calls, self._nodes, strict=True):
            found = [counts[edge] for edge in _followers(node)]
            sums = call.graph.sums()
            if len(found) != len(sums):
                found = [2] * len(sums)
            if any(is_sum and count > 1 for is_sum, count in zip(sums, found, strict=True)):
                self.objections[call.graph, call.ordinal] = ORDER
        self._nodes.clear()

    def forward(self, graph: CompiledGraph, arguments: list[Any]) -> list[Any]:
        """Run a graph's forward pass; return its outputs and a marker."""
        self._enter()
        number = len(self.calls)
        tensors = [one if isinstance(one, Tensor) else None for one in arguments]
        call = GraphCall(
            graph,
            self._ordinals[graph] - 1,
            [self._life(one) for one in tensors],
            [],
            [id(one) if isinstance(one, nn.Parameter) else None for one in tensors],
            [one is None or one.is_leaf for one in tensors],
        )
        del tensors
        self.calls.append(call)
        results = graph.bare(arguments)
        call.outputs = [self._life(one) if isinstance(one, Tensor) else None for one in results]
        self._mark("region")
        return [*results, marker(number, is_observed=True)]

    def turn(self) -> None:
        """Record that the step's backward pass begins."""
        self._is_turned = True
        self._note_deaths()
        self._region += 1
        self._mark("region")

    def backward(
        self, graph: CompiledGraph, number: int, arguments: list[Any]
    ) -> list[Tensor | None]:
        """Run a graph's backward pass: return zeros for inputs that need a gradient, else None.

        Leaves get None, too, except if other code differentiates during the forward pass.
        """
        self._enter()
        self.backward_calls.append((number, tuple(one is not None for one in arguments)))
        call = self.calls[number]
        taken = [layout(one) for one in arguments if one is not None]
        if self._layouts.get(number, taken) != taken:
            self.objections[call.graph, call.ordinal] = LAYOUT
        lives = [self._life(one) for one in arguments if one is not None]
        arguments.clear()
        held = {id(life) for life, reference in self._lives.values() if not _is_gone(reference)}
        call.tangents = [life if id(life) in held else None for life in lives]
        call.region = self._region
        made = [
            None
            if example is None or (is_leaf and self._is_turned)
            else torch.empty_strided(
                example.shape, example.stride(), dtype=example.dtype, device=example.device
            ).zero_()
            for example, is_leaf in zip(graph.gradients(), call.leaves, strict=True)
        ]
        self._mark("region")
        return made

    def close(self) -> None:
        """Finish the record at the end of the step."""
        self._note_deaths()
        came = {number for number, _ in self.backward_calls}
        for number, call in enumerate(self.calls):
            if not boxes_gradients():  # Autograd holds all tangents until the pass returns.
                call.tangents = [
                    None if life is None or life.death == call.region else life
                    for life in call.tangents
                ]
            if number not in came:
                self.objections[call.graph, call.ordinal] = ""

    def _enter(self) -> None:
        self._note_deaths()
        self._region += 1
        self._mark("graph")

    def _mark(self, label: str) -> None:
        if self.meter is not None:
            self.meter.mark(label)

    def _note_deaths(self) -> None:
        for key, (life, reference) in list(self._lives.items()):
            if _is_gone(reference):
                life.death = self._region
                del self._lives[key]

    def _life(self, tensor: Tensor | None) -> StorageLife | None:
        if tensor is None or storage_key(tensor) in self.known:
            return None
        key = storage_key(tensor)
        if key not in self._lives:
            storage = tensor.untyped_storage()
            reference = StorageWeakRef(storage)  # type: ignore[no-untyped-call]
            self._lives[key] = StorageLife(storage.nbytes()), reference
        return self._lives[key][0]


def _is_gone(reference: StorageWeakRef) -> bool:
    return bool(reference.expired())  # type: ignore[no-untyped-call]


def results_of(returned: object) -> list[Tensor]:
    """Return the tensors among a call's results that require gradients."""
    leaves, _ = flatten_objects(returned)
    return [one for one in leaves if isinstance(one, Tensor) and one.requires_grad]


def note_gradients(results: list[Tensor], came: set[int]) -> None:
    """Add the index of each result to a set when its gradient arrives."""
    for node, outputs in nodes_of(results).items():
        node.register_prehook(partial(_note, came, outputs))


def nodes_of(results: list[Tensor]) -> dict[Any, dict[int, int]]:
    """Return the autograd nodes of results, each with result indices by output number."""
    found: dict[Any, dict[int, int]] = {}
    for place, one in enumerate(results):
        if one.grad_fn is not None:
            found.setdefault(one.grad_fn, {})[one.output_nr] = place
    return found


def _note(came: set[int], places: dict[int, int], gradients: tuple[Tensor | None, ...]) -> None:
    came.update(place for output, place in places.items() if gradients[output] is not None)


def _followers(node: Any) -> tuple[Any, ...]:
    """Return the next edges of an autograd node; none if autograd has freed its graph."""
    try:
        return tuple(node.next_functions)
    except RuntimeError:
        return ()
