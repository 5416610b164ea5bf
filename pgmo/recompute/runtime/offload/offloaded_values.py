"""Nodes of a graph that send values to the host and fetch them.

    arena  matmul  send  mul  sent  ...  |  fetch  ...  arrived  mul_backward

The nodes of the forward pass take the arena and return it, which keeps these nodes in the graph and
in order. The arena that the last node returns is an input of the backward graph.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, fx

from pgmo.recompute.capture.compat import fakes, renewed
from pgmo.recompute.capture.joint_graph import Captured
from pgmo.recompute.planners.offload.transfers import offloaded_value
from pgmo.recompute.planners.schedule import Schedule
from pgmo.recompute.runtime.offload.host import HostArenas


class OffloadedValues:
    """Offloaded values of a step, and the nodes that transfer them.

    Attributes:
        values: offloaded values, by operation.
        arena: the newest node that returns the arena; None if nothing is offloaded.
        in_flight: for each fetched value that was not read yet, the node that fetches it.
    """

    def __init__(
        self, graph: fx.Graph, captured: Captured, schedule: Schedule, host: HostArenas
    ) -> None:
        self._graph, self._captured, self._host = graph, captured, host
        found = {one: offloaded_value(captured.graph, one) for one in sorted(schedule.offloaded)}
        self.values = {one: value for one, value in found.items() if value is not None}
        self._until: dict[int, list[int]] = defaultdict(list)
        self.in_flight: dict[int, fx.Node] = {}
        self.arena: fx.Node | None = None
        if not self.values:
            return
        assert schedule.transfers is not None
        for one in self.values:
            self._until[schedule.transfers.until[one]].append(one)
            self._place(one)
        examples = [self._example(one) for one in self.values]
        self._arena_example = examples[0].new_empty(host.size, dtype=torch.uint8, device="cpu")
        device = next((one.device for one in examples if one.is_cuda), examples[0].device)
        self.arena = self._node(host.lend, (device,), self._arena_example)

    def send(self, moment: int, first: dict[fx.Node, fx.Node]) -> Iterator[fx.Node]:
        """Write nodes before operation `moment`: send its predecessor's value, free sent values."""
        if moment - 1 in self.values:
            stride = list(self._example(moment - 1).stride())
            yield self._passed(self._host.send, moment - 1, first, stride)
        for one in self._until[moment]:
            yield self._passed(self._host.sent, one, first)

    def continue_in(self, graph: fx.Graph, arena: fx.Node) -> None:
        """Write further nodes into the backward graph, which has the input `arena`."""
        self._graph, self.arena = graph, arena

    def fetch(self, index: int) -> fx.Node:
        """Write the node that fetches the value of an operation."""
        example = self._example(index)
        metadata = (list(example.shape), list(example.stride()), example.dtype, example.device)
        arguments = (self.arena, self._place(index), *metadata)
        made = self._node(self._host.fetch, arguments, renewed(example))
        self.in_flight[self.values[index]] = made
        return made

    def arrive(self, value: int) -> fx.Node | None:
        """Write the node that waits for a fetched value; return None if no fetch is in progress."""
        made = self.in_flight.pop(value, None)
        if made is None:
            return None
        place = made.args[1]
        return self._node(self._host.arrived, (made, self.arena, place), made.meta["val"])

    def _passed(
        self,
        method: Callable[..., Tensor],
        index: int,
        first: dict[fx.Node, fx.Node],
        *more: list[int],
    ) -> fx.Node:
        root = first[self._captured.root_of[self.values[index]]]
        arguments = (self.arena, root, self._place(index), *more)
        self.arena = self._node(method, arguments, self._arena_example)
        return self.arena

    def _place(self, index: int) -> int:
        value = self.values[index]
        name = self._captured.root_of[value].name
        return self._host.place(name, self._captured.graph.values[value].size)

    def _example(self, index: int) -> Tensor:
        (example,) = fakes(self._captured.root_of[self.values[index]].meta["val"])
        return example

    def _node(
        self, method: Callable[..., Tensor], arguments: tuple[Any, ...], example: Tensor
    ) -> fx.Node:
        made = self._graph.call_function(method, arguments)
        made.meta["val"] = example
        return made
