"""Rules about blocks of the previous iteration at the peak."""

from pgmo.report.advice.facts import Facts, Hint
from pgmo.units import format_bytes


def gradients_held(facts: Facts) -> Hint | None:
    """Return a hint if gradients of the previous iteration are at least 1/20 of the peak."""
    held = facts.before * facts.born("backward")
    size = facts.size(held)
    if not facts.matters(size, 0.05):
        return None
    return Hint(
        "Gradients of the last iteration at the peak",
        f"{format_bytes(size)} ({facts.share(size):.0%}) of the peak are gradients of the "
        f"previous iteration{facts.largest(held)}. Call optimizer.zero_grad(set_to_none=True) "
        "right after optimizer.step(), not after the next forward pass.",
        size,
    )


def held_over(facts: Facts) -> Hint | None:
    """Return a hint if data of the previous iteration is at least 1/50 of the peak."""
    held = facts.before * ~facts.born("backward")
    size = facts.size(held)
    if not facts.matters(size, 0.02):
        return None
    double = facts.size(held * (facts.copies > 1))
    twice = (
        f", {format_bytes(double)} of it together with the data that replaces it" if double else ""
    )
    return Hint(
        "The last iteration's data at the peak",
        f"{format_bytes(size)} ({facts.share(size):.0%}) of the peak belong to the previous "
        f"iteration{twice}{facts.largest(held)}: a variable such as batch, output or loss "
        "holds them until it is assigned again. Write `del batch, output, loss` at the end of "
        "the loop's body.",
        size,
    )
