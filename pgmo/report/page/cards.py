"""Main figures of a report: max load, the plan, and the memory that PyTorch reserves."""

from dataclasses import dataclass

import numpy as np

from pgmo.packing.plan import UNPLANNED, Plan
from pgmo.profiler.profile import Profile
from pgmo.report.findings.moment import Moment
from pgmo.report.summary import Explanation
from pgmo.units import format_bytes


@dataclass(frozen=True)
class FigureCard:
    """One figure as text, with a note. Figures that are `good` or `bad` are coloured."""

    title: str
    value: str
    note: str = ""
    good: bool = False
    bad: bool = False


def cards(profile: Profile, plan: Plan, explanation: Explanation) -> list[FigureCard]:
    """Return the figures of a profile, its plan and PyTorch's memory, most important first."""
    if explanation.moment is not None:
        return _of_moment(explanation.moment, explanation)
    made = [
        FigureCard(
            "Max load", format_bytes(plan.max_load), "live at once: no arena can be smaller"
        ),
        _arena(plan),
        *_unplanned_bytes(profile, plan, explanation),
        *_reserved(explanation, on_cpu=profile.meta.device == "cpu"),
    ]
    default = explanation.reserved.get("default")
    if default is not None and default.peak:
        saved = default.peak - plan.arena - explanation.unplanned
        title = "A plan saves" if saved >= 0 else "A plan takes more"
        note = f"{abs(saved) / default.peak:.1%} of what PyTorch would reserve"
        made.append(FigureCard(title, format_bytes(abs(saved)), note, good=saved > 0))
    made += _unused(explanation)
    if explanation.leaks.found:
        growth = f"{format_bytes(explanation.leaks.growth)} per iteration"
        origin, guessed = f"from {explanation.leaks.found[0].origin}", explanation.leaks.guessed
        note = f"{origin}, if the period is an iteration" if guessed else origin
        made.append(FigureCard("Leaks", growth, note, bad=not guessed))
    made.append(_blocks(profile, plan))
    return made


def _unplanned_bytes(profile: Profile, plan: Plan, explanation: Explanation) -> list[FigureCard]:
    """Return the bytes that a plan needs in addition to the arena, and their sum with the arena."""
    if not explanation.unplanned:
        return []
    shared = profile.shared & ~profile.persistent
    parts = {
        "Persistent": (profile.persistent, "never freed"),
        "Shared": (shared, "used on several streams"),
    }
    made = []
    for title, (rows, what) in parts.items():
        count = int(rows.sum())
        if count:
            note = f"in {count:,} block{'s' if count != 1 else ''} {what}"
            made.append(FigureCard(title, f"+ {format_bytes(int(profile.size[rows].sum()))}", note))
    added = " + ".join(["arena", *(card.title.lower() for card in made)])
    made.append(
        FigureCard("A plan needs", f"= {format_bytes(plan.arena + explanation.unplanned)}", added)
    )
    return made


def _of_moment(moment: Moment, explanation: Explanation) -> list[FigureCard]:
    plural = "" if moment.blocks == 1 else "s"
    made = [
        FigureCard("Allocated", format_bytes(moment.size), f"in {moment.blocks:,} block{plural}")
    ]
    seen = explanation.fragmentation
    if seen is not None:
        note = f"in {seen.segments:,} segment{'' if seen.segments == 1 else 's'}"
        made.append(FigureCard("Reserved", format_bytes(seen.peak_reserved), note))
        note = f"in {seen.holes:,} hole{'' if seen.holes == 1 else 's'}"
        largest = f", the largest {format_bytes(seen.largest_hole)}" if seen.holes else ""
        made.append(FigureCard("In no block", format_bytes(seen.hole_bytes), note + largest))
    return made


def _reserved(explanation: Explanation, *, on_cpu: bool) -> list[FigureCard]:
    """Return the bytes that PyTorch is predicted to reserve, and their unused share at the peak."""
    titles = {"default": "PyTorch would reserve", "expandable": "with expandable segments"}
    made = []
    for name, one in explanation.reserved.items():
        note = f"{one.fragmentation:.1%} of it in no block"
        if on_cpu:  # PyTorch caches no CPU memory
            note = f"of a GPU, {note}"
        if name == "default" and explanation.fragmentation is not None:
            note += f"; {format_bytes(explanation.fragmentation.peak_reserved)} as recorded"
        made.append(FigureCard(titles.get(name, name), format_bytes(one.peak), note))
    return made


def _unused(explanation: Explanation) -> list[FigureCard]:
    """Return the recorded reserved bytes that no block had requested; none if no part has 1 MiB."""
    seen = explanation.fragmentation
    parts = [] if seen is None else seen.unused.parts()
    if seen is None or not parts:
        return []
    return [
        FigureCard(
            "Reserved, not requested",
            format_bytes(seen.unused.total),
            f"by any live block: {'; '.join(parts[:2])}",
        )
    ]


def _arena(plan: Plan) -> FigureCard:
    note = f"{plan.gap:.2%} above the max load{'; no plan can be smaller' if plan.optimal else ''}"
    if plan.optimal and plan.arena == plan.max_load:
        note = "equal to the max load"
    return FigureCard("Arena", format_bytes(plan.arena), note, good=plan.optimal)


def _blocks(profile: Profile, plan: Plan) -> FigureCard:
    planned = int(np.count_nonzero(plan.offset != UNPLANNED))
    wrapping = int(profile.wrap.sum())
    note = f"in {profile.ticks:,} requests; {planned:,} planned"
    if wrapping:
        note += f", {wrapping:,} live into the next iteration"
    return FigureCard("Blocks", f"{len(profile):,}", note)
