"""Rules about blocks of the current iteration at its peak."""

import numpy as np
from numpy.typing import NDArray

from pgmo.profiler.profile import Profile
from pgmo.report.advice.facts import Facts, Hint
from pgmo.units import format_bytes

_WORKSPACE_LIFE = 3
"""Maximum lifetime, in requests, of a convolution's block that counts as a workspace."""

_LOSS = ("log_softmax", "cross_entropy", "nll_loss", "softmax_backward")
"""Parts of the names of operators whose results are as large as the logits."""


def activations(facts: Facts) -> Hint | None:
    """Return a hint if blocks saved for the backward pass are at least 2/5 of the peak."""
    saved = facts.copies * facts.born("forward") * _dies_in_backward(facts.profile)
    size = facts.size(saved)
    if not facts.matters(size, 0.4):
        return None
    return Hint(
        "Activations make the peak",
        f"{format_bytes(size)} ({facts.share(size):.0%}) of the peak were requested in the forward "
        f"pass and are freed in the backward pass{facts.largest(saved)}. Recompute some of them: "
        "pgmo.recompute plans which, for a budget (`pgmo recompute` shows what it would cost); or "
        "torch.utils.checkpoint around repeated blocks; or a smaller batch with gradient "
        "accumulation.",
        size,
    )


def logits(facts: Facts) -> Hint | None:
    """Return a hint if the loss's results over classes or words are at least 1/5 of the peak."""
    held = facts.copies * facts.matches(lambda op: any(one in op for one in _LOSS), "op")
    size = facts.size(held)
    if not facts.matters(size, 0.2):
        return None
    return Hint(
        "The loss's own tensors make the peak",
        f"{format_bytes(size)} ({facts.share(size):.0%}) of the peak are log-probabilities and "
        f"their gradients{facts.largest(held)}. Compute the loss over chunks of the batch or of "
        "the sequence, each with its own part of the last layer, or use a fused linear "
        "cross-entropy.",
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
        "An optimizer with less of it helps: SGD with momentum has half of Adam's, 8-bit Adam a "
        "quarter; with several devices, shard it (ZeroRedundancyOptimizer, FSDP).",
        size,
    )


def optimizer_temporaries(facts: Facts) -> Hint | None:
    """Return a hint if temporaries of the optimizer's step are at least 1/5 of the peak."""
    held = (facts.copies - facts.before) * facts.born("optimizer")
    size = facts.size(held)
    if not facts.matters(size, 0.2):
        return None
    return Hint(
        "The optimizer's temporaries make the peak",
        f"{format_bytes(size)} ({facts.share(size):.0%}) of the peak are requested within "
        "optimizer.step(). Pass fused=True, which needs none, or foreach=False, which needs those "
        "of one parameter at a time.",
        size,
    )


def workspace(facts: Facts) -> Hint | None:
    """Return a hint if short-lived blocks of convolutions are at least 1/10 of the peak."""
    profile = facts.profile
    short = (profile.end - profile.start <= _WORKSPACE_LIFE) & ~profile.persistent
    held = facts.copies * short * facts.matches(lambda op: "conv" in op, "op")
    size = facts.size(held)
    if not facts.matters(size, 0.1):
        return None
    return Hint(
        "A convolution's workspace at the peak",
        f"{format_bytes(size)} ({facts.share(size):.0%}) of the peak live for "
        f"{_WORKSPACE_LIFE} requests at most within a convolution{facts.largest(held)}: most "
        "likely a workspace. torch.backends.cudnn.benchmark = False, or channels_last, may "
        "choose a kernel that needs less.",
        size,
    )


def _dies_in_backward(profile: Profile) -> NDArray[np.bool_]:
    """Return whether each block is freed in a backward pass, shape (n,).

    The phase of the request before the block's end decides.
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
