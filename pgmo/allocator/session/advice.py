"""Advice for out-of-memory errors. A session renews it when its plan or state changes."""

import numpy as np

from pgmo.allocator.session.statistics import MISS_REASONS, IterationStatistics
from pgmo.packing.plan import UNPLANNED, Plan
from pgmo.profiler.profile import Profile
from pgmo.units import format_bytes

_MOST_BLOCKS = 10

GOOD_SHARE = 0.999
"""If slots serve less than this share of an iteration's bytes, out-of-memory errors list the
reasons for misses. Blocks that are planned without a slot do not count."""

HOW_TO_NAME = "To see which modules and operators hold memory: `pgmo run`, or tags=True."

_GO_FURTHER = (
    "To reduce memory further: a smaller batch, or pgmo.recompute. `pgmo fit --what-if` shows how "
    "much memory each change saves."
)


def while_recording(*, pages: bool) -> str:
    """Return the advice of a session that has no plan yet."""
    if pages:
        return (
            "pgmo is still recording. Pages serve the program meanwhile, so a plan would save "
            f"little memory.\n{_GO_FURTHER}"
        )
    return (
        "pgmo is still recording: without a plan, memory is as fragmented as without pgmo.\n"
        "To train this batch here: record it on a larger card with save=, and start here with "
        "plan=. A plan that includes the first iteration serves from the first request."
    )


def without_plan(reason: str, *, pages: bool) -> str:
    """Return the advice of a session that has no plan and does not record."""
    serves = "Pages serve" if pages else "The framework's own allocator serves"
    return f"pgmo has no plan for this program: {reason}. {serves} it.\n{_GO_FURTHER}"


def while_replaying(
    plan: Plan, profile: Profile | None, last: IterationStatistics | None = None
) -> str:
    """Return the advice of a session that replays a plan, with the largest blocks at the peak."""
    lines = [
        f"The plan needs {format_bytes(plan.arena)}, {plan.gap:.2%}".replace("%", " %")
        + f" above the max load of {format_bytes(plan.max_load)}."
    ]
    reasons = [f"{n} {MISS_REASONS[why]}" for why, n in last.misses.items() if n] if last else []
    if reasons:
        lines.append(f"Requests of the last iteration without a slot: {'; '.join(reasons)}.")
    rows, sizes = _at_peak(plan)
    if len(rows):
        lines.append(f"The largest of the {len(rows)} blocks at the plan's peak:")
        for row in rows[np.argsort(-sizes, kind="stable")][:_MOST_BLOCKS]:
            lines.append(f"  {format_bytes(int(plan.size[row])):>10}  {_origin(profile, int(row))}")
        if profile is None or not profile.tags:
            lines.append(HOW_TO_NAME)
    lines.append("What helps: " + "; ".join(_remedies(plan)) + ".")
    return "\n".join(lines)


def _at_peak(plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows and sizes of the planned blocks alive at the tick of the largest load."""
    tick = int(np.argmax(plan.profile().load_curve()))
    alive = ((plan.start <= tick) & (tick < plan.end)) | (tick + plan.ticks < plan.end)
    rows = np.flatnonzero(alive & (plan.offset != UNPLANNED))
    return rows, plan.size[rows]


def _origin(profile: Profile | None, row: int) -> str:
    if profile is None or profile.tag[row] < 0:
        return f"request {row}"
    return str(profile.tags[profile.tag[row]])


def _remedies(plan: Plan) -> list[str]:
    remedies = ["a smaller batch"]
    if bool(np.any(plan.varying)):
        remedies.append("shorter sequences or smaller inputs: the plan has room for the largest")
    if bool(np.any(plan.end[plan.offset >= 0] > plan.start[plan.offset >= 0] + plan.ticks // 2)):
        remedies.append(
            "pgmo.recompute or torch.utils.checkpoint, if blocks of the forward pass live long"
        )
    if plan.gap > 0.02:
        remedies.append(
            "a plan= that `pgmo plan --effort best` made from a saved profile, because the current "
            "plan needs more than its max load"
        )
    return remedies
