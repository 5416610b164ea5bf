"""What notebooks show of profiles and plans: a picture and a table, or the whole report."""

from collections.abc import Mapping
from html import escape

import numpy as np

from pgmo.display import NotebookFrame
from pgmo.packing.plan import UNPLANNED, Plan
from pgmo.profiler.profile import Profile, ProfileMeta
from pgmo.report.page.drawing import KINDS, PHASES, load_picture, plan_picture
from pgmo.units import format_bytes


def profile_html(profile: Profile) -> str:
    """A profile as a fragment of HTML: live bytes by phase, and its figures; below 100 kB.

    It has no script and no colours of its own for text, so that it can be read in any theme.

    Example:
        >>> profile = Profile.from_columns(size=[64], start=[0], end=[1], ticks=1)
        >>> "max load" in profile_html(profile)
        True
    """
    svg, held = load_picture(profile)
    keys = {name: f"{name}, {format_bytes(size)} at the peak" for name, size in held.items()}
    persistent, shared = int(profile.persistent.sum()), int(profile.shared.sum())
    rows = {
        "blocks": f"{len(profile):,} in {profile.ticks:,} requests",
        "max load": f"{format_bytes(profile.max_load())}, no arena can be smaller",
        "requested": f"{format_bytes(int(profile.size.sum()))} in all",
        "not planned": f"{persistent:,} persistent, {shared:,} on several streams",
        "varying": f"{int(profile.varying.sum()):,} blocks differ in size between iterations",
        "shape": _shape(profile),
    }
    return _fragment("Profile", profile.meta, svg, _legend(keys, PHASES), rows)


def plan_html(plan: Plan) -> str:
    """A plan as a fragment of HTML: its blocks in the arena, and its figures; below 100 kB.

    Example:
        >>> from pgmo.packing.planner import plan
        >>> made = plan(Profile.from_columns(size=[64], start=[0], end=[1], ticks=1))
        >>> "arena" in plan_html(made)
        True
    """
    svg, counts, drawn = plan_picture(plan)
    keys = {name: f"{name}: {count:,}" for name, count in counts.items()}
    placed = int(np.count_nonzero(plan.offset != UNPLANNED))
    rows = {
        "arena": f"{format_bytes(plan.arena)}, {100 * plan.gap:.2f} % above the max load",
        "max load": format_bytes(plan.max_load)
        + (" (dashed)" if plan.max_load < plan.arena else ""),
        "blocks": f"{placed:,} of {len(plan):,} planned"
        + (f"; the {drawn:,} largest are drawn" if drawn < placed else ""),
        "solver": f"{plan.solver}, {plan.seconds:.3g} s"
        + (", proved optimal" if plan.optimal else ""),
    }
    if plan.inner:
        others = f"{len(plan.others)} further structures" if plan.others else ""
        opening = "the first iteration" if plan.opening is not None else ""
        rows["inside"] = "plans of " + " and ".join(part for part in (others, opening) if part)
    return _fragment("Plan", plan.meta, svg, _legend(keys, KINDS), rows)


def _shape(profile: Profile) -> str:
    if not profile.circular:
        return "does not repeat"
    return "steady: iterations repeat" if profile.steady else "not steady: no two iterations agree"


def _legend(keys: Mapping[str, str], colours: Mapping[str, str]) -> str:
    """The names of the colours that occur."""
    return " &emsp; ".join(
        f'<span style="color:{colours[name]}">&#9632;</span> {escape(text)}'
        for name, text in keys.items()
    )


def _fragment(kind: str, meta: ProfileMeta, svg: str, legend: str, rows: Mapping[str, str]) -> str:
    return (
        f"<div><p><b>{kind}</b> {escape(_origin(meta))}</p>{svg}<p>{legend}</p>"
        f"<table>{''.join(_row(*row) for row in rows.items())}</table></div>"
    )


def _origin(meta: ProfileMeta) -> str:
    framework = f"{meta.framework} {meta.framework_version}".strip()
    return ", ".join(text[:100] for text in (meta.model, framework, meta.device) if text)


def _row(name: str, value: str) -> str:
    left = 'style="text-align:left"'
    return f"<tr><th {left}>{escape(name)}</th><td {left}>{escape(value)}</td></tr>"


def show(
    profile: Profile, plan: Plan | None = None, *, height: int = 900, headline: str = ""
) -> NotebookFrame:
    """The whole report of a profile, for a notebook.

    Args:
        profile: the profile.
        plan: its plan; a quick one is made if there is none.
        height: in pixels.
        headline: with what the page begins; see `render`.

    Raises:
        ProfileError: when the plan is one of another profile.

    Example:
        >>> profile = Profile.from_columns(size=[64], start=[0], end=[1], ticks=1)
        >>> show(profile)  # doctest: +ELLIPSIS
        NotebookFrame(... characters of HTML; shown by notebooks)
    """
    from pgmo.report.page.html import render

    return NotebookFrame(render(profile, plan, headline=headline), height)
