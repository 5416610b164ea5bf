"""Composition of the peak of a step, for errors about impossible budgets."""

from collections import Counter

from pgmo.recompute.planners.graph import NOT_CAPTURED, Graph, Operation
from pgmo.recompute.planners.schedule import Schedule
from pgmo.units import format_bytes

_LEAST = 0.01
"""Minimum share of the peak. Parts with a smaller share are not named."""


def floor(schedule: Schedule) -> str:
    """Return a description of a schedule's peak."""
    if not schedule.peak:
        return "The step allocates nothing"
    graph = schedule.graph
    operation = graph.operations[schedule.peak_operation]
    sizes: Counter[str] = Counter()
    for block in schedule.alive(schedule.peak_step):
        value = int(schedule.value[block])
        sizes[_kind(graph, value, operation)] += int(schedule.size[block])
    named = [(kind, size) for kind, size in sizes.most_common() if size >= _LEAST * schedule.peak]
    place = operation.name + (f" of {operation.module}" if operation.module else "")
    shares = "; ".join(
        f"{kind} {format_bytes(size)} ({size / schedule.peak:.0%})" for kind, size in named
    )
    advice = ""
    if named[0][0].startswith("gradients of parameters"):
        advice = (
            ". Gradients of parameters outlive the step and cannot be dropped; recomputation "
            "saves a larger share of the peak at a larger batch"
        )
    return f"Live bytes at the step's peak, in {place}: {shares}{advice}"


def _kind(graph: Graph, value: int, operation: Operation) -> str:
    if value < 0:
        return "workspace of this operator"
    one = graph.values[value]
    if one.result and one.producer >= graph.forward:
        return "gradients of parameters and inputs"
    if value in (*operation.reads, *operation.writes):
        return "inputs and results of this operator"
    if one.result:
        return "results of the forward pass"
    if one.producer >= 0 and graph.operations[one.producer].name == NOT_CAPTURED:
        return "memory of code that is not captured"
    if one.producer >= graph.forward:
        return "intermediate gradients"
    if graph.operations[one.producer].pinned or one.pinned:
        return "values that are never computed twice, such as random numbers"
    return "saved activations"
