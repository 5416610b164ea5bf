"""Joining of a step's graphs and regions, to plan them under one budget.

graph    Its operations run again only within the graph. Values that it shares with other graphs or
         regions are pinned.
region   Code between two graphs, as two pinned operations. The workspace of the first operation
         stands for the region's peak. The second operation writes the bytes that stay allocated.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import fx

from pgmo.recompute.capture.compat import boxes_gradients, flatten, is_tangent
from pgmo.recompute.capture.joint_graph import Captured
from pgmo.recompute.compiled.dry_run.discovery import Discovery, GraphCall
from pgmo.recompute.compiled.dry_run.regions import Region, StorageLife
from pgmo.recompute.planners.evaluator import Choice, Evaluator
from pgmo.recompute.planners.graph import NOT_CAPTURED, Graph, Operation, Value
from pgmo.recompute.planners.schedule import refit


@dataclass(frozen=True, eq=False)
class JoinedGraph:
    """Graph of a whole step; `origins`: call of each operation, and its number in the call."""

    graph: Graph
    origins: tuple[tuple[int, int] | None, ...]  # None for regions.

    def of_call(self, number: int, choice: Choice, graph: Graph) -> Choice:
        """Return a call's part of a choice, in operations of the call's `graph`."""
        own = {
            index: origin[1]
            for index, origin in enumerate(self.origins)
            if origin is not None and origin[0] == number
        }
        recomputed = frozenset(own[one] for one in choice.recomputed if one in own)
        if choice.reruns is None:
            return Evaluator(graph).candidate(recomputed, "together")
        reruns = tuple((own[moment], own[one]) for moment, one in choice.reruns if one in own)
        away = frozenset(own[one] for one in choice.offloaded if one in own)
        return Choice.of(refit(graph, reruns, away, choice.transfers), "together")


def join_graphs(
    found: Discovery, steps: Sequence[tuple[Captured, Graph]], is_plain: bool = False
) -> JoinedGraph:
    """Join the graphs of a step to one graph.

    Args:
        found: the record of the dry run.
        steps: for each call, its captured step, and the variant of its graph to join.
        is_plain: whether to join the step of the plain model, without compiled functions.
    """
    made = _JoinedGraphBuilder(holds_tangents=not (is_plain or boxes_gradients()))
    placed = [_Placed(*step) for step in steps]
    for number, call in enumerate(found.calls):
        made.region(found.regions[number], number)
        placed[number].inputs(call)
        made.forward(placed[number], number)
    turn = len(found.calls)
    made.region(found.regions[turn], turn)
    forward = len(made.operations)
    for place, (number, _) in enumerate(found.backward_calls, turn + 1):
        made.region(found.regions[place], place, placed[number])
        made.backward(placed[number], number)
    made.region(found.regions[-1], len(found.regions) - 1)
    made.end()
    return made.graph(forward)


class _Placed:
    """Graph of one call, and the numbers of its values in the joined graph."""

    def __init__(self, captured: Captured, graph: Graph) -> None:
        self.captured, self.graph = captured, graph
        nodes = list(captured.joint.graph.find_nodes(op="placeholder"))
        self._given = [node for node in nodes if not is_tangent(node)]
        (last,) = captured.joint.graph.find_nodes(op="output")
        results = flatten(last.args)[0]
        self._results = results[: captured.outputs]
        gradients = results[captured.outputs :]
        self.numbers: dict[int, int] = {}  # From own values to values of the joined graph.
        self.lives: dict[int, StorageLife] = {}  # From own values to storages.
        self.returned = {self._value(node) for node in self._results}
        self.gradients = {
            value: node
            for node, made in zip(self._given, gradients, strict=False)
            if (value := self._value(made)) is not None
        }
        first = captured.nodes[graph.forward : graph.forward + 1] == ((),)
        self.tangents = graph.operations[graph.forward].writes if first else ()
        self._tangents = [node for node in nodes if is_tangent(node)]
        self.held_tangents: dict[int, StorageLife] = {}  # From tangents to storages.
        self.owners: dict[fx.Node, object] = {}  # From inputs to ids of parameters.

    def inputs(self, call: GraphCall) -> None:
        """Set the storages of the call's inputs, outputs and tangents, and `owners`."""
        for node, life in zip(self._given, call.inputs, strict=True):
            self._note(node, life)
        for result, life in zip(self._results, call.outputs, strict=True):
            self._note(result, life)
        if len(call.tangents) == len(self._tangents):
            for node, life in zip(self._tangents, call.tangents, strict=True):
                value = self._value(node)
                if value is not None and life is not None and self._sizes_agree(value, life):
                    self.held_tangents[value] = life
        self.owners = {
            node: owner
            for node, owner in zip(self._given, call.owners, strict=True)
            if owner is not None
        }

    def _note(self, node: object, life: StorageLife | None) -> None:
        value = self._value(node)
        if value is not None and life is not None and self._sizes_agree(value, life):
            self.lives[value] = life

    def _sizes_agree(self, value: int, life: StorageLife) -> bool:
        """Return whether a value has the size of a storage, up to rounding.

        A storage is larger than the value if the tensor is a view of a part of the storage.
        """
        return 0 <= self.graph.values[value].size - life.size < 512

    def _value(self, node: object) -> int | None:
        return self.captured.value_of.get(node) if isinstance(node, fx.Node) else None


class _JoinedGraphBuilder:
    def __init__(self, holds_tangents: bool) -> None:
        # Whether autograd holds the tangents until a backward pass returns.
        self._holds_tangents = holds_tangents
        self.operations: list[Operation] = []
        self._reads: list[set[int]] = []
        self._values: list[Value] = []
        self._origins: list[tuple[int, int] | None] = []
        self._lives: dict[StorageLife, int] = {}
        self._base: list[int] = []  # Values for the bytes that regions hold, newest last.
        self._passing: list[int] = []  # Values that a graph returns to the next region.
        self._owners: set[object] = set()  # Parameters that have a gradient.

    def region(self, region: Region, place: int, following: _Placed | None = None) -> None:
        """Add the region with number `place`, and the tangents that it passes to `following`."""
        begins = self._add(NOT_CAPTURED)
        alive = self._held(place)
        passing = sum(self._values[one].size for one in self._passing)
        self._reads[begins].update(self._passing)
        self._passing.clear()
        before = sum(self._values[one].size for one in self._base)
        self._set_base(max(0, region.entry - alive - passing), begins, begins)
        level = max(before, sum(self._values[one].size for one in self._base)) + alive + passing
        workspace = max(0, region.peak - level)
        self.operations[begins] = replace(self.operations[begins], workspace=workspace)
        self._reads[begins] |= {value for one, value in self._lives.items() if one.death == place}
        ends = self._add(NOT_CAPTURED)
        coming = 0
        if following is not None:
            for own in following.tangents:
                life, size = following.held_tangents.get(own), following.graph.values[own].size
                if life is not None and life in self._lives:
                    following.numbers[own] = self._lives[life]
                    continue
                following.numbers[own] = self._write(Value(size, ends, pinned=True))
                if life is None:
                    coming += size
                else:
                    self._lives[life] = following.numbers[own]
        left = region.exit - self._held(place + 1) - coming
        self._set_base(max(0, left), ends, begins)

    def _held(self, place: int) -> int:
        """Return the bytes of graphs' inputs and outputs that live in the region `place`."""
        lives = (one for one in self._lives if one.death is None or one.death >= place)
        return sum(one.size for one in lives)

    def _set_base(self, target: int, producer: int, reader: int) -> None:
        """Set the bytes that regions hold: `producer` allocates more, or `reader` frees some."""
        level = sum(self._values[one].size for one in self._base)
        if target > level:
            self._base.append(self._write(Value(target - level, producer, pinned=True)))
        while level > target:
            last = self._base.pop()
            size = self._values[last].size
            if level - size < target:  # A part of the value stays.
                stays = target - (level - size)
                self._values[last] = replace(self._values[last], size=size - stays)
                kept = self._write(Value(stays, self._values[last].producer, pinned=True))
                self._base.append(kept)
                size -= stays
            self._reads[reader].add(last)
            level -= size

    def forward(self, placed: _Placed, number: int) -> None:
        for own, value in enumerate(placed.graph.values):
            if value.producer == -1:
                placed.numbers[own] = self._given(value, placed.lives.get(own))
        for index in range(placed.graph.forward):
            self._place(placed, index, number)

    def _given(self, value: Value, life: StorageLife | None) -> int:
        if life is None:
            return self._write(Value(value.size, -1))
        if life not in self._lives:  # The preceding region allocated it.
            last = len(self.operations) - 1
            self._lives[life] = self._write(Value(life.size, last, pinned=True))
            self._shrink(life.size)
        return self._lives[life]

    def _shrink(self, size: int) -> None:
        """Reduce the bytes that regions hold by `size`, of a tensor from the last region."""
        last = len(self.operations) - 1
        level = sum(self._values[one].size for one in self._base)
        self._set_base(max(0, level - size), last, last - 1)

    def backward(self, placed: _Placed, number: int) -> None:
        first = placed.graph.forward + (1 if placed.tangents else 0)
        for index in range(first, len(placed.graph.operations)):
            self._place(placed, index, number)
        if self._holds_tangents:
            self._reads[-1].update(placed.numbers[own] for own in placed.tangents)

    def _place(self, placed: _Placed, index: int, number: int) -> None:
        own = placed.graph.operations[index]
        place = self._add(own.name, (number, index))
        self.operations[place] = replace(own, home=number + 1)
        self._reads[place] |= {placed.numbers[value] for value in own.reads}
        for value in own.writes:
            placed.numbers[value] = self._result(placed, value, place)

    def _result(self, placed: _Placed, own: int, producer: int) -> int:
        value = replace(placed.graph.values[own], producer=producer)
        life = placed.lives.get(own)
        if life is not None and life not in self._lives:
            self._lives[life] = self._write(replace(value, result=False, pinned=True))
            return self._lives[life]
        if own in placed.gradients:
            owner = placed.owners.get(placed.gradients[own])
            stays = owner is not None and owner not in self._owners
            self._owners.add(owner)
            return self._write(value) if stays else self._pass(value)
        return self._pass(value) if own in placed.returned else self._write(value)

    def _pass(self, value: Value) -> int:
        self._passing.append(self._write(replace(value, result=False, pinned=True)))
        return self._passing[-1]

    def end(self) -> None:
        """Let the last region read the values that outlive the step."""
        last = len(self.operations) - 1
        alive = [value for life, value in self._lives.items() if life.death is None]
        self._reads[last].update(self._base, alive)

    def _add(self, name: str, origin: tuple[int, int] | None = None) -> int:
        self.operations.append(Operation(name, (), (), 0.0, 0, True))
        self._reads.append(set())
        self._origins.append(origin)
        return len(self.operations) - 1

    def _write(self, value: Value) -> int:
        self._values.append(value)
        return len(self._values) - 1

    def graph(self, forward: int) -> JoinedGraph:
        writes: list[list[int]] = [[] for _ in self.operations]
        for number, value in enumerate(self._values):
            if value.producer >= 0:
                writes[value.producer].append(number)
        operations = tuple(
            replace(
                one,
                reads=tuple(sorted(value for value in read if self._values[value].producer < at)),
                writes=tuple(made),
            )
            for at, (one, read, made) in enumerate(
                zip(self.operations, self._reads, writes, strict=True)
            )
        )
        return JoinedGraph(Graph(operations, tuple(self._values), forward), tuple(self._origins))
