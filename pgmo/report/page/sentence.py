"""First sentences of a report: the cause of the peak, the plan's saving, the origin of the peak."""

import numpy as np

from pgmo.packing.plan import Plan
from pgmo.profiler.profile import Profile
from pgmo.profiler.tag import Tag
from pgmo.report.summary import Explanation
from pgmo.units import format_bytes

_SAME = 0.005
"""Minimum difference, as a share of the reserved bytes. Below it, the sentence is "as much as"."""

_DURING = {
    "optimizer": "the optimizer step",
    "forward": "the forward pass",
    "backward": "the backward pass",
    "recompute": "the forward pass that runs again for the backward pass",
}


def sentence(profile: Profile, plan: Plan, explanation: Explanation) -> str:
    """Summarise a profile for readers who do not know pgmo's terms; "" without blocks.

    If the cause of the peak is known, it comes first. If there are private pools, a sentence about
    them comes last.
    """
    if not len(profile):
        return ""
    causes = [f"{hint.title}: {hint.text} " for hint in explanation.hints[:1] if hint.is_cause]
    pools = "" if explanation.pools is None else f" {explanation.pools.sentence()}."
    return "".join(causes) + _of_profile(profile, plan, explanation) + pools


def _of_profile(profile: Profile, plan: Plan, explanation: Explanation) -> str:
    if explanation.moment is not None:
        return explanation.moment.sentences()
    where = f"The peak is {place_of(profile, explanation.peak.tick)}"
    default = explanation.reserved.get("default")
    if default is None or not default.peak:
        return f"{where}, {format_bytes(explanation.peak.size)}."
    saving = _saving(default.peak, plan.arena + explanation.unplanned, profile.meta.device)
    return f"{saving}. {where}."


def place_of(profile: Profile, tick: int) -> str:
    """Describe the position in the program at a tick, by the block requested at this tick."""
    # Blocks from before the recording also begin at tick 0. The first request comes after them.
    requested = np.flatnonzero(profile.start == tick)
    number = int(profile.tag[requested[-1]]) if requested.size else -1
    tag = profile.tags[number] if number >= 0 else Tag("", "", "")
    phase = tag.phase if tag.phase in _DURING else ""
    if tag.module:
        return ", ".join(part for part in (f"in {module_in_words(tag.module)}", phase) if part)
    if phase == "optimizer":
        return f"in {_DURING[phase]}"
    what = tag.file or tag.op.removeprefix("aten.")
    if what:
        return f"in {what}, {phase}" if phase else f"in {what}"
    return f"in {_DURING[phase]}" if phase else f"at request {tick + 1:,} of {profile.ticks:,}"


def module_in_words(path: str) -> str:
    """Return a name for a module's path. Layers are numbered as in the path, from 0.

    Example:
        >>> module_in_words("GPT.layers.3.attention.query"), module_in_words("Net.head")
        ("layer 3's attention.query", 'head')
        >>> module_in_words("ResNet.layer1.0.conv1"), module_in_words("Net")
        ("layer1.0's conv1", 'Net')
    """
    parts = path.split(".")
    numbers = [at for at, part in enumerate(parts) if part.isdigit() and at > 0]
    if not numbers:
        return ".".join(parts[1:]) or path
    at = numbers[0]
    many = parts[at - 1]
    if at == 1:
        layer = f"layer {parts[at]}"
    elif many.endswith("s") and len(many) > 2:
        layer = f"{many[:-1]} {parts[at]}"
    else:
        layer = f"{many}.{parts[at]}"
    inner = ".".join(parts[at + 1 :])
    return f"{layer}'s {inner}" if inner else layer


def _saving(reserved: int, needed: int, device: str) -> str:
    """Describe how much less a plan needs, or how much more."""
    share = (reserved - needed) / reserved
    pytorch = f"PyTorch would reserve{' on a GPU' if device == 'cpu' else ''}"
    if abs(share) < _SAME:
        return f"pgmo would need as much as {pytorch} ({format_bytes(needed)})"
    less = "less" if share > 0 else "more"
    sizes = f"{format_bytes(needed)} instead of {format_bytes(reserved)}"
    percent = f"{abs(share):.0%}".replace("%", " %")
    return f"pgmo would need {percent} {less} than {pytorch} ({sizes})"
