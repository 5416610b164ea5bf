"""Figures of profiles and plans, as fields for JSON and as lines of text."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pgmo.units import format_bytes

if TYPE_CHECKING:
    from pgmo.packing.plan import Plan
    from pgmo.packing.solving.result import Packing
    from pgmo.profiler.profile import Profile
    from pgmo.report.summary import Explanation


_SOLUTION = ("max_load", "bound", "arena", "gap", "optimal", "solver", "seconds")


def describe_profile(profile: "Profile", explanation: "Explanation") -> dict[str, Any]:
    """Return the figures of a profile; sizes in bytes."""
    from pgmo.report.summary import plain

    persistent = profile.persistent
    shared = profile.shared & ~persistent  # blocks without a slot only because they are shared
    fragmentation = explanation.fragmentation
    return {
        "kind": "profile",
        "moment": plain(explanation.moment),
        "blocks": len(profile),
        "ticks": profile.ticks,
        "max_load": profile.max_load(),
        "bytes_requested": int(profile.size[~persistent & ~shared].sum()),
        "wrapping": int(profile.wrap.sum()),
        "doubly_live": int((profile.turns == 2).sum()),
        "varying": int(profile.varying.sum()),
        "persistent": int(persistent.sum()),
        "persistent_bytes": int(profile.size[persistent].sum()),
        "shared": int(shared.sum()),
        "shared_bytes": int(profile.size[shared].sum()),
        "streams": len(set(profile.stream.tolist())),
        "threads": len(set(profile.thread.tolist())),
        "circular": profile.circular,
        "steady": profile.steady,
        "fingerprint": profile.fingerprint,
        "meta": asdict(profile.meta),
        "peak": plain(explanation.peak),
        "trace": _trace(profile),
        "unused": plain(fragmentation and fragmentation.unused),
        "pools": plain(explanation.pools),
        "kept": plain(explanation.kept),
        "hints": plain(explanation.hints),
    }


def profile_lines(fields: Mapping[str, Any], explanation: "Explanation") -> list[str]:
    """Format the fields of `describe_profile`, without holders of the peak and hints."""
    notes = dict(fields["meta"]["notes"])
    if "source" not in notes:  # only notes of recordings are shown
        notes.clear()
    notes.pop("events", None)
    origin = f"profile     {_origin(fields['meta'])}"
    pools = [] if explanation.pools is None else explanation.pools.lines()
    if explanation.moment is not None:
        notes.pop("iterations", None)
        return [*explanation.moment.lines(), origin, *_note_lines(notes), *pools]
    steady = "steady" if fields["steady"] else "NOT steady: no two iterations agreed"
    if not fields["circular"]:
        steady = "without a repeating iteration"
    lines = [
        origin,
        f"blocks      {fields['blocks']} in {fields['ticks']} ticks, {steady}",
        f"            {fields['wrapping']} live into the next iteration, {fields['doubly_live']} "
        f"of them longer than an iteration; {fields['varying']} vary in size",
        f"persistent  {fields['persistent']} blocks, {format_bytes(fields['persistent_bytes'])}, "
        "not planned",
    ]
    if fields["shared"]:
        size = format_bytes(fields["shared_bytes"])
        lines.append(
            f"shared      {fields['shared']} blocks, {size}, used on several streams, not planned"
        )
    trace = fields["trace"] or {"live_peak": None, "reserved_peak": None}
    if fields["trace"]:
        begun = trace["iterations"]
        lines.append(
            f"trace       {trace['events']} events, {trace['requests']} requests, {begun} "
            f"iteration{'' if begun == 1 else 's'} begun"
        )
    lines.append(
        f"max load    {format_bytes(fields['max_load'])}; planned blocks request "
        f"{format_bytes(fields['bytes_requested'])} in all"
    )
    if trace["live_peak"] is not None:
        size = format_bytes(trace["live_peak"])
        lines.append(f"live peak   {size} of all blocks in the recording")
    if trace["reserved_peak"] is not None:
        lines.append(f"reserved    {format_bytes(trace['reserved_peak'])} at most")
    seen = explanation.fragmentation
    parts = [] if seen is None else seen.unused.parts()
    if parts:
        lines.append(f"unused      at the reserved peak: {', '.join(parts)}")
    return [*lines, *explanation.kept.lines(), *_note_lines(notes), *pools]


def _note_lines(notes: Mapping[str, str]) -> list[str]:
    return [f"{name:<11} {text}" for name, text in notes.items()]


def _trace(profile: "Profile") -> dict[str, int | None] | None:
    """Return figures of the profile's trace, if it has one; sizes in bytes."""
    from pgmo.profiler.trace_blocks import live_peak
    from pgmo.report.findings.fragmentation import reserved_curve

    trace = profile.trace
    if trace is None:
        return None
    reserved = reserved_curve(trace)[max(0, trace.before - 1) :]
    return {
        "events": len(trace) - trace.before,
        "requests": trace.requests,
        "iterations": trace.iterations,
        "live_peak": live_peak(trace),
        "reserved_peak": int(reserved.max(initial=0)) or None,
    }


def describe_plan(plan: "Plan") -> dict[str, Any]:
    """Return the figures of a plan; sizes in bytes, times in seconds."""
    from pgmo.packing.plan import UNPLANNED

    planned = plan.offset != UNPLANNED
    return {
        "kind": "plan",
        "blocks": len(plan),
        "planned": int(planned.sum()),
        "unplanned_bytes": int(plan.size[~planned].sum()),
        "two_slots": int((plan.alternate != UNPLANNED).sum()),
        "varying": int(plan.varying.sum()),
        **{name: getattr(plan, name) for name in ("ticks", *_SOLUTION, "spilled", "alignment")},
        "fingerprint": plan.fingerprint,
        "others": len(plan.others),
        "opening": plan.opening is not None,
        "meta": asdict(plan.meta),
    }


def plan_lines(fields: Mapping[str, Any]) -> list[str]:
    """Format the fields of `describe_plan`."""
    lines = [f"plan        {_origin(fields['meta'])}"]
    others = fields["others"]
    further = [f"{others} other structure{'s' if others > 1 else ''}"] if others else []
    further += ["the first iteration's plan"] if fields["opening"] else []
    if further:
        lines.append(f"            and {', and '.join(further)}")
    lines += [
        f"blocks      {fields['planned']} of {fields['blocks']} planned, "
        f"{fields['two_slots']} with two slots; {fields['varying']} vary in size",
        *_sizes(fields),
    ]
    rest = fields["unplanned_bytes"]
    if rest:
        count = fields["blocks"] - fields["planned"]
        lines.append(
            f"in all      {format_bytes(fields['arena'] + rest)} with the {format_bytes(rest)} of "
            f"the {count} block{'s' if count > 1 else ''} without a slot"
        )
    lines.append(_solver(fields))
    if fields["spilled"]:
        stay = format_bytes(fields["arena"] - fields["spilled"])
        lines.append(
            f"spilled     {format_bytes(fields['spilled'])} of the arena, to unified memory on the "
            f"host; {stay} stay on the device"
        )
    return lines


def describe_packing(packing: "Packing") -> dict[str, Any]:
    """Return the figures of the packing of a plain problem; sizes in bytes, times in seconds."""
    return {
        "kind": "packing",
        "blocks": len(packing),
        **{name: getattr(packing, name) for name in _SOLUTION},
        "alignment": packing.problem.alignment,
    }


def packing_lines(fields: Mapping[str, Any]) -> list[str]:
    """Format the fields of `describe_packing`."""
    return [f"blocks      {fields['blocks']}", *_sizes(fields), _solver(fields)]


def _sizes(fields: Mapping[str, Any]) -> list[str]:
    proof = "; optimal for fixed offsets" if fields["optimal"] else ""
    if not fields["optimal"] and fields["bound"] > fields["max_load"]:
        proof = f"; no plan can be below {format_bytes(fields['bound'])}"
    arena = format_bytes(fields["arena"])
    return [
        f"max load    {format_bytes(fields['max_load'])}, no arena is smaller",
        f"arena       {arena}, {fields['gap']:.2%} above the max load{proof}",
    ]


def _solver(fields: Mapping[str, Any]) -> str:
    return (
        f"solver      {fields['solver']}, {fields['seconds']:.2f} s, "
        f"aligned to {fields['alignment']} bytes"
    )


def _origin(fields: Mapping[str, Any]) -> str:
    framework = f"{fields.get('framework', '')} {fields.get('framework_version', '')}".strip()
    known = [fields.get("model"), framework, fields.get("device"), fields.get("date")]
    return ", ".join(part for part in known if part) or "of unknown origin"
