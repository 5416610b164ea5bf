"""Explanations in plain text, one line per fact."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pgmo.report.advice.facts import Hint
from pgmo.report.blocks.origins import By
from pgmo.report.findings.leaks import Leaks
from pgmo.units import format_bytes

if TYPE_CHECKING:
    from pgmo.report.summary import Explanation

_MOST = 5
_SHOWN: dict[By, str] = {"phase": "phase", "module": "module", "file": "line"}


def explanation_lines(explanation: "Explanation") -> list[str]:
    """Return an explanation as lines of text: one per fact, hints last."""
    peak = explanation.peak
    lines = [
        f"peak        {format_bytes(peak.size)} in {peak.blocks} blocks, "
        f"at tick {peak.tick} of {explanation.ticks}"
    ]
    if explanation.moment is not None:
        lines = explanation.moment.lines()
    for by, heading in _SHOWN.items():
        holders = [one for one in explanation.holders[by] if not one.name.startswith("(")]
        if holders:
            named = ", ".join(f"{one.name} {format_bytes(one.size)}" for one in holders[:_MOST])
            lines.append(f"  by {heading:<8}{named}")
    residents = explanation.residents
    if residents.size:
        lines.append(
            f"resident    {format_bytes(residents.size)} in {residents.blocks} blocks are "
            "always alive, in addition to the peak"
        )
    lines += reserved_lines(explanation)
    lines += [] if explanation.pools is None else explanation.pools.lines()
    lines += _state(explanation)
    lines += leak_lines(explanation.leaks)
    lines += explanation.kept.lines()
    return lines + hint_lines(explanation.hints)


def hint_lines(hints: Iterable[Hint]) -> list[str]:
    """Return a line for each hint."""
    return [f"{'cause' if hint.is_cause else 'hint':12}{hint.title}: {hint.text}" for hint in hints]


def reserved_lines(explanation: "Explanation") -> list[str]:
    """Return lines on failures, reserved bytes, the plan and max load; empty without a history."""
    if explanation.moment is not None:
        return []
    lines = [
        f"failed      a request{f' of {format_bytes(one.size)}' if one.size else ''} from "
        f"{one.origin}, with {format_bytes(one.live)} in blocks"
        f"{f' and {format_bytes(one.reserved)} reserved' if one.reserved else ''}"
        for one in explanation.failures[:_MOST]
    ]
    seen = explanation.fragmentation
    if seen is not None:
        holes = f"{seen.holes} holes, the largest {format_bytes(seen.largest_hole)}"
        lines.append(
            f"reserved    {format_bytes(seen.peak_reserved)} at the recorded peak, "
            f"{seen.waste:.1%} of it not requested; at the peak of live bytes "
            f"{holes if seen.holes else 'no holes'}"
        )
        parts = ", ".join(seen.unused.parts())
        if parts:
            lines.append(f"            not requested at the peak of reserved bytes: {parts}")
        if explanation.circular and explanation.residents.size:
            rest = format_bytes(explanation.residents.size)
            lines.append(
                f"            {rest} of the reserved bytes are blocks that are always alive, such "
                "as parameters, and are excluded below"
            )
    words = {"default": "by default", "expandable": "with expandable segments"}
    for name, one in explanation.reserved.items():
        lines.append(
            f"PyTorch     would reserve {format_bytes(one.peak)} on CUDA {words.get(name, name)} "
            f"for these blocks, {one.fragmentation:.1%} of it unused"
        )
    plan = explanation.plan
    if plan is not None:
        proof = ", optimal for fixed offsets" if plan.optimal else ""
        lines.append(
            f"plan        needs {format_bytes(plan.arena)}, {plan.gap:.2%} above the "
            f"max load{proof}"
        )
        if explanation.unplanned:
            both = format_bytes(plan.arena + explanation.unplanned)
            rest = format_bytes(explanation.unplanned)
            lines.append(f"            {both} with the {rest} of blocks that get no slot")
    load = explanation.max_load if explanation.plan is None else explanation.plan.max_load
    lines.append(
        f"max load    {format_bytes(load)}: alive at once at the peak, no arena is smaller"
    )
    return lines


def leak_lines(leaks: Leaks) -> list[str]:
    """Return a line on all leaks, and a line for each leak."""
    if not leaks.judged:
        return [f"leaks       not known ({leaks.basis})"]
    if not leaks.found:
        return [f"leaks       none ({leaks.basis})"]
    return [
        f"leaks       {format_bytes(leaks.growth)} per iteration ({leaks.basis})",
        *(
            f"  {leak.confidence:<10}{format_bytes(leak.growth)}/iteration from {leak.origin}: "
            f"{leak.why}"
            for leak in leaks.found
        ),
    ]


def _state(explanation: "Explanation") -> list[str]:
    """Return a line on drift, and a line on streams if there are several."""
    lines = []
    drift = explanation.drift
    if drift.compared:
        lines.append(
            f"drift       {drift.changed} of {drift.compared} iterations differ from the previous "
            f"iteration; {drift.varying} blocks vary in size"
        )
    if len(explanation.streams) > 1:
        named = ", ".join(
            f"{use.stream}: {use.requests} blocks, {format_bytes(use.max_load)} at once"
            for use in explanation.streams[:_MOST]
        )
        lines.append(f"streams     {named}")
    return lines
