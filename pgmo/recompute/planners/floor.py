"""Composition of the peak of a step, for errors about impossible budgets."""

from collections import Counter

from pgmo.recompute.planners.graph import NOT_CAPTURED, Graph
from pgmo.recompute.planners.schedule import Schedule
from pgmo.units import format_bytes

_LEAST = 0.01
"""Minimum share of the peak of a part that is named."""


def parts(graph: Graph, schedule: Schedule) -> list[tuple[str, int]]:
    """Return the bytes live at the peak by kind of block, largest first.

    A block counts as the first kind of `_kind` that applies.
    """
    found: Counter[str] = Counter()
    operation = graph.operations[schedule.peak_operation] if len(schedule.operations) else None
    for block in schedule.alive(schedule.peak_step):
        value = int(schedule.value[block])
        found[_kind(graph, value, operation)] += int(schedule.size[block])
    return found.most_common()


def _kind(graph: Graph, value: int, operation: object) -> str:
    if value < 0:
        return "workspace of this operator"
    one = graph.values[value]
    if one.result and one.producer >= graph.forward:
        return "gradients of parameters and inputs"
    if value in (*getattr(operation, "reads", ()), *getattr(operation, "writes", ())):
        return "inputs and results of this operator"
    if one.result:
        return "results of the forward pass"
    if one.producer >= 0 and graph.operations[one.producer].name == NOT_CAPTURED:
        return "memory of code that is not captured"
    if one.producer >= graph.forward:
        return "intermediate gradients"
    if graph.operations[one.producer].pinned or one.pinned:
        return "values that must not be computed twice, such as random numbers"
    return "saved activations"


def floor(schedule: Schedule) -> str:
    """Return a description of a schedule's peak."""
    graph = schedule.graph
    whole = max(1, schedule.peak)
    named = [(words, size) for words, size in parts(graph, schedule) if size >= _LEAST * whole]
    if not named:
        return "The step allocates nothing"
    operation = graph.operations[schedule.peak_operation]
    place = operation.name + (f" of {operation.module}" if operation.module else "")
    shares = "; ".join(
        f"{words} {format_bytes(size)} ({size / whole:.0%})" for words, size in named
    )
    advice = ""
    if named[0][0].startswith("gradients of parameters"):
        advice = (
            ". Gradients of parameters live until the optimizer's step and cannot be dropped; "
            "recomputation saves a larger share at a larger batch"
        )
    return f"At its peak, in {place}, there are: {shares}{advice}"
