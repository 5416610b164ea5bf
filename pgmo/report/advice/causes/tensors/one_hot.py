"""Cause: a one-hot matrix is used instead of indices. Report: pytorch/pytorch#13882."""

from pgmo.report.advice.facts import Facts, Hint, cause


def one_hot(facts: Facts) -> Hint | None:
    """Return a hint if one-hot matrices make the peak."""
    return cause(
        facts,
        "A matrix of zeros and ones",
        facts.blocks.by_operator(r"\.one_hot$"),
        "are one-hot matrices",
        "Pick by indices instead, with `gather`, `nll_loss` or an embedding",
    )
