"""Training step as operations on values, independent of a framework."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import inf

from pgmo.errors import GraphError

NOT_CAPTURED = "code that is not captured"
"""Name of operations that stand for code between graphs."""


@dataclass(frozen=True, slots=True)
class Value:
    """Storage that operations read and write, with all its views.

    Args:
        size: bytes, from 0.
        producer: the operation that writes the value; -1 for parameters and inputs of the step,
            whose bytes are not counted.
        result: whether the value lives to the end of the step, as losses and gradients do.
        pinned: whether the value is never computed again, such as the statistics of a
            normalization. A pinned value is saved if the backward pass reads it.
    """

    size: int
    producer: int
    result: bool = False
    pinned: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """Operator of a step.

    Args:
        name: the operator, such as `aten.convolution`.
        reads: the values that the operation reads, ascending and each once.
        writes: the values that the operation writes, each once.
        cost: seconds, or another unit that is the same for the whole graph; from 0.
        workspace: bytes that the operation allocates and frees while it runs.
        pinned: whether the operation must not run twice, for example if it draws random numbers.
        module: dotted path of the operation's module; empty if unknown.
        home: number of the operation's graph if the step has several graphs. The operation runs
            again only before operations of the same graph.
    """

    name: str
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    cost: float = 1.0
    workspace: int = 0
    pinned: bool = False
    module: str = ""
    home: int = 0


@dataclass(frozen=True)
class Graph:
    """Operations of one step in the order in which they run.

    Args:
        operations: operations of the forward pass, then operations of the backward pass.
        values: the values that operations read and write.
        forward: number of operations of the forward pass.

    Raises:
        GraphError: if a value is read before it is written, is written twice, or does not exist;
            if reads are not ascending; if bytes or a cost are negative or not finite; if `forward`
            is out of range.
    """

    operations: tuple[Operation, ...]
    values: tuple[Value, ...]
    forward: int

    def __post_init__(self) -> None:
        if not 0 <= self.forward <= len(self.operations):
            raise GraphError(
                f"{self.forward} forward operations: there are {len(self.operations)} in all"
            )
        _check(self)

    def __repr__(self) -> str:
        backward = len(self.operations) - self.forward
        return (
            f"Graph({self.forward} forward and {backward} backward operations, "
            f"{len(self.values)} values)"
        )

    @property
    def forward_cost(self) -> float:
        """Cost of the forward pass, to which overheads are relative."""
        return sum(operation.cost for operation in self.operations[: self.forward])

    def candidates(self) -> Iterator[int]:
        """Yield the forward operations that may run again, ascending.

        These operations are not pinned. Each writes a value that can be dropped (not pinned, no
        result) and that the backward pass, or the rerun of another operation, reads.
        """
        needed = {
            value for operation in self.operations[self.forward :] for value in operation.reads
        }
        for index in reversed(range(self.forward)):
            operation = self.operations[index]
            if not operation.pinned and needed.intersection(operation.writes):
                needed.update(operation.reads)
        for index, operation in enumerate(self.operations[: self.forward]):
            if operation.pinned:
                continue
            if any(
                value in needed and not self.values[value].pinned and not self.values[value].result
                for value in operation.writes
            ):
                yield index


def _check(graph: Graph) -> None:
    written = {index for index, value in enumerate(graph.values) if value.producer == -1}
    for index, operation in enumerate(graph.operations):
        if any(one >= other for one, other in pairwise(operation.reads)):
            raise GraphError(
                f"operation {index} ({operation.name}) reads the values {operation.reads}; give "
                "them ascending, each once"
            )
        if len({*operation.writes}) < len(operation.writes):
            raise GraphError(
                f"operation {index} ({operation.name}) writes the values {operation.writes}; give "
                "each once"
            )
        if not 0 <= operation.cost < inf or operation.workspace < 0:
            raise GraphError(
                f"operation {index} ({operation.name}) has the cost {operation.cost} and a "
                f"workspace of {operation.workspace} bytes; give finite numbers from 0"
            )
        for value in operation.reads:
            if value not in written:
                raise GraphError(
                    f"operation {index} ({operation.name}) reads value {value}, "
                    "which no earlier operation writes"
                )
        for value in operation.writes:
            if not 0 <= value < len(graph.values) or graph.values[value].producer != index:
                raise GraphError(
                    f"operation {index} ({operation.name}) writes value {value}, "
                    "which has another producer or does not exist"
                )
            written.add(value)
    for index, one in enumerate(graph.values):
        if one.size < 0:
            raise GraphError(f"value {index} has {one.size} bytes")
        if index not in written:
            raise GraphError(f"value {index}: operation {one.producer} does not write it")
    if graph.forward_cost == inf:
        raise GraphError("the costs of the forward pass are too large to be added up")


EXAMPLE = Graph(
    operations=(
        Operation("exp", (0,), (1,)),
        Operation("sum", (1,), (2,)),
        Operation("exp_backward", (1, 2), (3,)),
    ),
    values=(Value(64, -1), Value(64, 0), Value(4, 1), Value(64, 2, result=True)),
    forward=2,
)
"""Sum of exponentials with its derivative, for examples."""
