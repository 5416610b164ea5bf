"""Cause: settings of PyTorch's allocator that cost memory. Report: pytorch/pytorch#113481."""

import re

from pgmo.profiler.profile import Profile
from pgmo.profiler.trace import Trace
from pgmo.report.advice.facts import LEAST_SAVING, Facts, Hint
from pgmo.units import format_bytes

_HARMLESS = {
    "max_split_size": "-1",
    "garbage_collection_threshold": "0.0",
}
"""Settings that may cost memory, each with the value at which it has no effect."""

_ROUNDS = re.compile(r":(?:[2-9]|\d\d)")
"""Pattern of an interval with two or more divisions. PyTorch rounds requests up to a division."""


def allocator_settings(facts: Facts) -> Hint | None:
    """Return a hint if PyTorch would reserve at least 1/10 less with its default settings.

    A model of the allocator serves all recorded requests. There is no hint for a recording with
    expandable segments, or with blocks from before its first event.
    """
    trace, seen = facts.profile.trace, facts.explanation.fragmentation
    if trace is None or seen is None or trace.before:
        return None
    set_to = {name: trace.settings.get(name, value) for name, value in _HARMLESS.items()}
    changed = [name for name, value in set_to.items() if value != _HARMLESS[name]]
    if _ROUNDS.search(trace.settings.get("roundup_power2_divisions", "")):
        changed.append("roundup_power2_divisions")
    if not changed or facts.is_expandable:
        return None
    saving = seen.peak_reserved - _reserved_by_default(facts, trace)
    if saving < LEAST_SAVING * seen.peak_reserved:
        return None
    named = " and ".join(name.replace("split_size", "split_size_mb") for name in changed)
    return Hint(
        "A setting of the allocator costs memory",
        f"PyTorch reserves {format_bytes(seen.peak_reserved)} with {named} in "
        f"PYTORCH_CUDA_ALLOC_CONF, and would reserve {format_bytes(saving)} less with its "
        "defaults. Use the defaults, or set expandable_segments:True.",
        saving,
        is_cause=True,
        peak=seen.peak_reserved,
    )


def _reserved_by_default(facts: Facts, trace: Trace) -> int:
    """Return the peak of reserved bytes at PyTorch's defaults, by simulation."""
    from pgmo.profiler.caching.model import simulate_profile

    blocks = facts.blocks
    everything = Profile.from_columns(
        size=blocks.size,
        start=blocks.start,
        end=blocks.end,
        ticks=blocks.ticks,
        stream=trace.stream[trace.blocks.row],
        circular=False,
        steady=False,
    )
    return int(simulate_profile(everything).peak_reserved)
