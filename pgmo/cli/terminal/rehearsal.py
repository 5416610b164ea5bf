"""Output of `pgmo rehearse`."""

import argparse
import shlex
from collections.abc import Iterator, Sequence

from pgmo.cards import Card
from pgmo.rehearsal.answer import Rehearsal
from pgmo.units import format_bytes

_WAYS = {
    "default": "PyTorch's allocator",
    "expandable": "PyTorch's allocator with expandable segments",
    "pgmo": "pgmo run",
}


_LEAST_PINNED = 1 << 20
"""Minimum number of pinned bytes that are shown. Scalars that are copied to the host are
smaller."""


def words(script: str, is_module: bool, arguments: Sequence[str]) -> list[str]:
    """Return the command after `python`."""
    return [*(["-m"] if is_module else []), script, *arguments]


def lines(answer: Rehearsal, script: str, card: Card, way: str) -> Iterator[str]:
    """Yield the result as lines of text."""
    yield f"{script} on {_named(card)}, under {_WAYS[way]}: {_verdict(answer)}"
    left = card.usable - answer.card_peak
    yield _line(
        "card", f"{format_bytes(answer.card_peak)} at the peak, {format_bytes(left)} are left"
    )
    yield _line("allocator", f"{format_bytes(answer.reserved_peak)} reserved at the peak")
    yield _line("tensors", f"{format_bytes(answer.allocated_peak)} at the peak")
    yield _line("context", f"{format_bytes(answer.context)}, an estimate")
    if answer.pinned_peak >= _LEAST_PINNED:
        yield _line("host", f"{format_bytes(answer.pinned_peak)} pinned at the peak")
    yield _line("iterations", str(answer.iterations or "none: no optimizer took a step"))
    if answer.out_of_memory:
        message, _, place = answer.out_of_memory.rpartition("\n")
        yield _line("error", message.partition(". ")[0])
        yield _line("at", place)
    for note in answer.notes:
        yield _line("note", note)


def next_command(answer: Rehearsal, arguments: argparse.Namespace) -> str | None:
    """Return the command that runs the script with the saved plan; None if that is impossible."""
    if answer.plan is None or not answer.fits or arguments.world > 1:
        return None
    script = words(arguments.script, arguments.is_module, arguments.arguments)
    return f"pgmo run --plan {shlex.quote(str(answer.plan))} {shlex.join(script)}"


def _verdict(answer: Rehearsal) -> str:
    if answer.fits:
        return "it fits"
    return "it failed" if answer.failed else "it does not fit"


def _named(card: Card) -> str:
    if card.anonymous:
        return f"a card of {format_bytes(card.usable)}"
    return f"{card.name} ({format_bytes(card.usable)})"


def _line(name: str, text: str) -> str:
    return f"{name:<10}  {text}"
