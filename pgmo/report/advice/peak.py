"""Rules about blocks of one phase, or of the previous iteration, that are alive at the peak."""

import numpy as np
from numpy.typing import NDArray

from pgmo.profiler.profile import Profile
from pgmo.report.advice.all_blocks import by_tag
from pgmo.report.advice.facts import Facts, Hint
from pgmo.units import format_bytes

_WORKSPACE_LIFE = 3
"""Maximum lifetime, in requests, at which a convolution's block counts as its workspace."""


def activations(facts: Facts) -> Hint | None:
    """Return a hint if blocks saved for the backward pass are at least 2/5 of the peak."""
    saved = facts.copies * facts.born("forward") * _dies_in_backward(facts.profile)
    size = facts.size(saved)
    if not facts.is_large(size, 0.4):
        return None
    return Hint(
        "Activations make the peak",
        f"{format_bytes(size)} ({facts.share(size):.0%}) of the peak were requested in the forward "
        f"pass and are freed in the backward pass{facts.largest(saved)}. Recompute some of them: "
        "pgmo.recompute selects them for a budget (`pgmo recompute` shows the cost). Or put "
        "torch.utils.checkpoint around repeated blocks, or take a smaller batch with gradient "
        "accumulation.",
        size,
    )


def optimizer_state(facts: Facts) -> Hint | None:
    """Return a hint if optimizer state is at least 3/10 of all known memory."""
    size = sum(one.size for one in facts.explanation.residents.phases if one.name == "optimizer")
    total = facts.explanation.peak.size + facts.explanation.residents.size
    if not total or size / total < 0.3:
        return None
    return Hint(
        "Much of the memory is optimizer state",
        f"{format_bytes(size)} of {format_bytes(total)} in use at the peak are optimizer state. "
        "An optimizer with less state helps: SGD with momentum has half of Adam's state, 8-bit "
        "Adam a quarter. With several devices, shard the state (ZeroRedundancyOptimizer, FSDP).",
        size,
    )


def workspace(facts: Facts) -> Hint | None:
    """Return a hint if short-lived blocks of convolutions are at least 1/10 of the peak."""
    profile = facts.profile
    short = (profile.end - profile.start <= _WORKSPACE_LIFE) & ~profile.persistent
    in_convolution = by_tag(profile.tags, profile.tag, lambda tag: "conv" in tag.op)
    held = facts.copies * short * in_convolution
    size = facts.size(held)
    if not facts.is_large(size, 0.1):
        return None
    return Hint(
        "A convolution's workspace at the peak",
        f"{format_bytes(size)} ({facts.share(size):.0%}) of the peak live for "
        f"{_WORKSPACE_LIFE} requests at most within a convolution{facts.largest(held)}: most "
        "likely a workspace. torch.backends.cudnn.benchmark = False, or channels_last, may "
        "choose a kernel that needs less.",
        size,
    )


def gradients_held(facts: Facts) -> Hint | None:
    """Return a hint if blocks of the previous backward pass are at least 1/20 of the peak."""
    held = facts.before * facts.born("backward")
    size = facts.size(held)
    if not facts.is_large(size, 0.05):
        return None
    return Hint(
        "Gradients of the last iteration at the peak",
        f"{format_bytes(size)} ({facts.share(size):.0%}) of the peak are of the previous "
        f"iteration's backward pass, as gradients are{facts.largest(held)}. Call "
        "zero_grad(set_to_none=True) right after optimizer.step(), not after the next forward "
        "pass.",
        size,
    )


def held_over(facts: Facts) -> Hint | None:
    """Return a hint if other blocks of the previous iteration are at least 1/50 of the peak."""
    held = facts.before * ~facts.born("backward")
    size = facts.size(held)
    if not facts.is_large(size, 0.02):
        return None
    double = facts.size(held * (facts.copies > 1))
    twice = (
        f", {format_bytes(double)} of it together with the data that replaces it" if double else ""
    )
    return Hint(
        "The last iteration's data at the peak",
        f"{format_bytes(size)} ({facts.share(size):.0%}) of the peak belong to the previous "
        f"iteration{twice}{facts.largest(held)}. Often a variable such as batch, output or loss "
        "holds them until it is assigned again: write `del batch, output, loss` at the end of "
        "the loop's body.",
        size,
    )


def _dies_in_backward(profile: Profile) -> NDArray[np.bool_]:
    """Return whether the last tagged request before each block's end is backward or recompute.

    Returns:
        Mask, shape (n,). False for persistent blocks.
    """
    order = np.argsort(profile.start, kind="stable")
    known = order[profile.tag[order] >= 0]
    if not known.size:
        return np.zeros(len(profile), np.bool_)
    backward = np.array([tag.phase in ("backward", "recompute") for tag in profile.tags])
    last = (profile.end - 1) % profile.ticks
    request = np.searchsorted(profile.start[known], last, "right") - 1
    freed: NDArray[np.bool_] = backward[profile.tag[known[request]]]
    return freed & ~profile.persistent
