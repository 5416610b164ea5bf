"""Cause: copies by `repeat`. Report: ByteDance-Seed/Depth-Anything-3#268 (a mask per head)."""

from pgmo.report.advice.facts import Facts, Hint, cause


def repeated_tensors(facts: Facts) -> Hint | None:
    """Return a hint if repeated tensors make the peak."""
    return cause(
        facts,
        "A tensor repeated in memory",
        facts.blocks.by_operator(r"\.(?:repeat|repeat_interleave|tile)$"),
        "are tensors that `repeat` or `repeat_interleave` has copied several times",
        "Use a dimension of size 1, which broadcasts (a mask of [batch, 1, length, length] for all "
        "heads), `expand`, or enable_gqa=True for keys and values",
    )
