"""Composition of the peak of a step, which explains why a budget is impossible."""

from collections import Counter

from pgmo.recompute.planners.graph import NOT_CAPTURED, Graph
from pgmo.recompute.planners.schedule import Schedule
from pgmo.units import format_bytes

_LEAST = 0.01
"""Share of the peak above which a part is named."""


def parts(graph: Graph, schedule: Schedule) -> list[tuple[str, int]]:
    """Return the bytes live at the peak of a schedule by kind, in words, the most first.

    A block counts once, as the first of: values of the operator at the peak, gradients that the
    step returns, other results, values that must not be computed again, and kept activations.
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
        return "what this operator reads and writes"
    if one.result:
        return "results of the forward pass"
    if one.producer >= 0 and graph.operations[one.producer].name == NOT_CAPTURED:
        return "what code that is not captured holds"
    if one.producer >= graph.forward:
        return "gradients on their way"
    if graph.operations[one.producer].pinned or one.pinned:
        return "what may not be computed twice, such as random numbers"
    return "activations that are kept"


def floor(schedule: Schedule) -> str:
    """Describe the composition of a schedule's peak."""
    graph = schedule.graph
    whole = max(1, schedule.peak)
    named = [(words, size) for words, size in parts(graph, schedule) if size >= _LEAST * whole]
    if not named:
        return "There is nothing at its peak"
    operation = graph.operations[schedule.peak_operation]
    place = operation.name + (f" of {operation.module}" if operation.module else "")
    shares = "; ".join(
        f"{words} {format_bytes(size)} ({size / whole:.0%})" for words, size in named
    )
    advice = ""
    if named[0][0].startswith("gradients of parameters"):
        advice = (
            ". Gradients of parameters are there until the optimizer's step and cannot be "
            "dropped: a larger batch has more to drop"
        )
    return f"At its peak, in {place}, there are: {shares}{advice}"
