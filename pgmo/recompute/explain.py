"""Description of a plan: its peak, the modules that recompute, and the blocks at the peak."""

from collections import Counter, defaultdict

from pgmo.recompute.capture.divide import divided
from pgmo.recompute.planners.graph import NOT_CAPTURED, Graph
from pgmo.recompute.runtime.decide import PlannedStep
from pgmo.units import format_bytes

_MODULES = 12  # Maximum number of listed modules; one line sums up all further modules.


def explain(planned: PlannedStep, measured: int | None, resident: int) -> str:
    """Describe a plan: peaks, cost, modules that drop most, and the operation at the peak.

    `measured` and `resident` are as `measured_peak` and `resident` of `RecomputePlan`, in bytes.
    """
    schedule, graph = planned.schedule, planned.captured.graph
    lines = [
        f"Peak of a step: {format_bytes(schedule.peak)}, instead of "
        f"{format_bytes(planned.default.peak)} in the original model"
        f" ({schedule.peak / max(planned.default.peak, 1):.0%}). {_budget(planned.budget)}",
        f"Parameters, buffers and example inputs take another {format_bytes(resident)}.",
        *_graphs(planned),
    ]
    if measured is not None:
        difference = measured / max(schedule.peak, 1) - 1
        words = f"{100 * abs(difference):.1f} % {'more' if difference > 0 else 'less'} than"
        lines.append(
            f"A real step took {format_bytes(measured)} at its peak, "
            f"{words if difference else 'as'} predicted."
        )
    if schedule.offloaded:
        lines.append(_offloaded(planned))
    if not schedule.recomputed:
        lines += ["Nothing is recomputed.", "", _peak(planned), *_divided(planned)]
        return "\n".join(lines)
    times = sum(index in schedule.recomputed for _, index in schedule.reruns)
    often = f"again, {times} times in all" if times > len(schedule.recomputed) else "twice"
    forward = sum(one.name != NOT_CAPTURED for one in graph.operations[: graph.forward])
    lines.append(
        f"{len(schedule.recomputed)} of {forward} operations of the forward pass run "
        f"{often}, which takes {100 * schedule.rerun_share:.1f} % of the forward pass's time. "
        f"Planner: {planned.planner}."
    )
    lines += ["", *_modules(planned), "", _peak(planned)]
    lines += [*_divided(planned), *_pinned(graph)]
    return "\n".join(lines)


def _graphs(planned: PlannedStep) -> list[str]:
    if not planned.captured.nodes:
        shared = f"{planned.graphs} graphs share" if planned.graphs > 1 else "1 graph has"
        return [
            f"The forward pass is not a single graph: {shared} the budget. Other code runs "
            "unchanged; the peak includes its memory if pgmo could measure it (measure=True)."
        ]
    return []


def _offloaded(planned: PlannedStep) -> str:
    schedule = planned.schedule
    assert schedule.transfers is not None
    count = len(schedule.offloaded)
    return (
        f"The results of {count} operation{'s' if count > 1 else ''} are offloaded and take "
        f"{format_bytes(schedule.host_bytes)} of host memory. Waiting for their transfers at "
        f"{schedule.transfers.rate / 1e9:.3g} GB/s takes {100 * schedule.wait_share:.1f} % of the "
        "forward pass's time."
    )


def _budget(budget: int | str | None) -> str:
    if budget is None:
        return "There is no budget."
    if budget == "min":
        return "No smaller peak was found with an overhead of at most one forward pass."
    return f"The budget is {format_bytes(int(budget))}."


def _modules(planned: PlannedStep) -> list[str]:
    graph = planned.captured.graph
    names: dict[str, Counter[str]] = defaultdict(Counter)
    sizes: Counter[str] = Counter()
    costs: Counter[str] = Counter()
    for index, times in Counter(index for _, index in planned.schedule.reruns).items():
        if index in planned.schedule.offloaded:
            continue
        operation = graph.operations[index]
        names[operation.module][operation.name.removeprefix("aten.").lstrip("_")] += 1
        sizes[operation.module] += sum(
            graph.values[value].size
            for value in operation.writes
            if not graph.values[value].pinned and not graph.values[value].result
        )
        costs[operation.module] += 1e6 * times * operation.cost  # type: ignore[assignment]
    forward_cost = 1e6 * graph.forward_cost or 1.0
    lines = ["Computed again, by module: results dropped, share of the forward pass, operations"]
    listed = sizes.most_common(_MODULES)
    for module, size in listed:
        share = 100 * costs[module] / forward_cost
        operations = ", ".join(
            f"{name}" + (f" x{count}" if count > 1 else "")
            for name, count in names[module].most_common(4)
        )
        lines.append(
            f"  {module or '(outside of modules)'}: {format_bytes(size)}, {share:.1f} %, "
            f"{operations}"
        )
    if len(sizes) > len(listed):
        others = sizes.total() - sum(size for _, size in listed)
        lines.append(f"  further modules ({len(sizes) - len(listed)}): {format_bytes(others)}")
    return lines


def _peak(planned: PlannedStep) -> str:
    schedule, graph = planned.schedule, planned.captured.graph
    step = schedule.peak_step
    operation = graph.operations[schedule.peak_operation]
    phase = "forward" if schedule.peak_operation < graph.forward else "backward"
    again = ""
    if schedule.again[step]:
        fetched = schedule.peak_operation in schedule.offloaded
        again = ", fetched from the host" if fetched else ", run again"
    where = f" of {operation.module}" if operation.module else ""
    largest = []
    for block in schedule.alive(step)[:3]:
        size = format_bytes(int(schedule.size[block]))
        value = int(schedule.value[block])
        if value < 0:
            largest.append(f"{size} of workspace")
        else:
            producer = graph.operations[graph.values[value].producer]
            owner = f" of {producer.module}" if producer.module else ""
            largest.append(f"{size} written by {producer.name.removeprefix('aten.')}{owner}")
    return (
        f"The peak lies at {operation.name.removeprefix('aten.')}{where} ({phase} pass{again}). "
        f"The largest blocks at the peak: {'; '.join(largest)}."
    )


def _divided(planned: PlannedStep) -> list[str]:
    count = divided(planned.captured)
    if not count:
        return []
    return [
        f"{count} convolution{'s compute their' if count > 1 else ' computes its'} gradients of "
        "weights and input one after the other, because both at once take more memory."
    ]


def _pinned(graph: Graph) -> list[str]:
    forward = graph.operations[: graph.forward]
    pinned = [one for one in forward if one.pinned and one.name != NOT_CAPTURED]
    kept = sum(graph.values[value].size for one in pinned for value in one.writes)
    if not kept:
        return []
    names = ", ".join(
        name.removeprefix("aten.").lstrip("_")
        for name, _ in Counter(one.name for one in pinned).most_common(3)
    )
    return [
        "Some operations never run twice, because they draw random numbers, have side effects, "
        f"communicate, or read values that are overwritten ({len(pinned)}: {names}). Their results "
        f"take {format_bytes(kept)}."
    ]
