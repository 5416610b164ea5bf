"""Conversion of a planned step to a profile, which can be packed and reported."""

import numpy as np

from pgmo.profiler.profile import Profile, ProfileMeta
from pgmo.profiler.tag import Tag
from pgmo.recompute.planners.schedule import Schedule
from pgmo.units import format_bytes
from pgmo.version import __version__


def step_profile(
    schedule: Schedule, *, model: str = "", device: str = "cpu", framework_version: str = ""
) -> Profile:
    """Return the blocks of a schedule as a profile whose max load is the schedule's peak.

    Each block is allocated at a tick of its own. A block's tag has the module, the operator and the
    phase, which is "recompute" for reruns and fetches. Parameters, buffers and inputs are excluded.

    Args:
        schedule: the schedule of a step.
        model: name of the model's class, the first part of module paths.
        device: name of the device, such as "cuda:0".
        framework_version: version of PyTorch.
    """
    graph = schedule.graph
    solid = np.flatnonzero(schedule.size > 0)
    order = solid[np.argsort(schedule.start[solid], kind="stable")]
    start = schedule.start[order]
    numbers: dict[Tag, int] = {}
    tags = np.empty(len(order), np.int32)
    for row, step in enumerate(start.tolist()):
        index = int(schedule.operations[step])
        operation = graph.operations[index]
        phase = "forward" if index < graph.forward else "backward"
        module = ".".join(part for part in (model, operation.module) if part)
        tag = Tag(module, operation.name, "recompute" if schedule.again[step] else phase)
        tags[row] = numbers.setdefault(tag, len(numbers))
    notes = {
        "step": "planned by pgmo recompute, not recorded",
        "recomputed": f"{len(schedule.recomputed)} of {graph.forward} forward operations, "
        f"{100 * schedule.rerun_share:.1f} % of the forward pass",
        "peak": format_bytes(schedule.peak),
    }
    return Profile.from_columns(
        size=schedule.size[order],
        start=np.arange(len(order)),
        end=np.searchsorted(start, schedule.end[order], "left"),
        tag=tags,
        ticks=len(order),
        tags=tuple(numbers),
        meta=ProfileMeta(
            framework="torch",
            framework_version=framework_version,
            pgmo_version=__version__,
            device=device,
            model=model,
            notes=notes,
        ),
    )
