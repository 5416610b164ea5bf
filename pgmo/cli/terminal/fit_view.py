"""Output of `pgmo fit`: an answer in one sentence, and tables with details."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pgmo.cards import Card
from pgmo.cli.terminal.output import print_text
from pgmo.fit.answer import NAMES, Answer
from pgmo.fit.laws.need import CATEGORIES
from pgmo.fit.rows import Row, alternative_rows, batch_rows, card_rows, holder_rows
from pgmo.fit.two_values import BatchTable
from pgmo.rehearsal.environment import WAYS
from pgmo.units import format_bytes

if TYPE_CHECKING:
    from rich.console import Console

_HOLDERS = 5


def print_answer(out: "Console", answer: Answer) -> None:
    """Print the sentence of an answer, its tables, and its notes."""
    print_text(out, answer.sentence)
    out.print()
    if answer.largest:
        _print_largest(out, answer)
    _print_ways(out, answer)
    _print_categories(out, answer)
    for by, heading in (("module", "module"), ("op", "operator")):
        _print_holders(out, answer, by, heading)
    if answer.alternatives:
        _print_alternatives(out, answer)
    if answer.cards:
        _print_cards(out, answer)
    if answer.forecast is not None:
        print_text(out, f"time        {answer.forecast.words} on {answer.card.name}")
    for note in answer.need.notes:
        print_text(out, f"note        {note}")
    times = "once" if answer.rehearsals == 1 else f"{answer.rehearsals} times"
    print_text(out, f"rehearsed   {times}, {answer.seconds:.0f} s")


def print_table(out: "Console", found: BatchTable, card: Card) -> None:
    """Print the largest batch for each length."""
    first, second = found.options
    print_text(out, f"The largest {first} for each {second} on {card.name} with pgmo:")
    _print_rows(out, (second, f"largest {first}", "shown by"), batch_rows(found))
    print_text(out, f"rehearsed   {found.rehearsals} times, {found.seconds:.0f} s")


def _print_largest(out: "Console", answer: Answer) -> None:
    rows = []
    for one in answer.largest:
        takes = format_bytes(one.need.total(one.way)) if one.need else "-"
        with_what = NAMES[one.way] if one.change is None else f"{one.change}, {NAMES[one.way]}"
        how = "a rehearsal" if one.proved else "a prediction"
        rows.append((str(one.value), with_what, takes, format_bytes(answer.card.usable), how))
    _print_rows(out, ("largest", "with", "takes", "of", "shown by"), rows)


def _print_ways(out: "Console", answer: Answer) -> None:
    at = "" if answer.value is None else f" at {answer.value}"
    rows = []
    for way in WAYS:
        total = answer.need.total(way)
        left = answer.card.usable - total
        fits = "yes" if answer.fits[way] else "no"
        if answer.fits[way] and left < 0:
            fits = "yes, with less memory"
        rows.append((NAMES[way], format_bytes(total), format_bytes(left), fits))
    _print_rows(out, (f"peak of the card{at}", "takes", "left", "fits"), rows)


def _print_categories(out: "Console", answer: Answer) -> None:
    need = answer.need
    sizes = {**need.categories, "context": need.context}
    whole = sum(sizes.values())
    rows = [
        (CATEGORIES[name], format_bytes(size), f"{size / whole:.1%}")
        for name, size in sizes.items()
    ]
    if need.growth:
        rows.append(("growth until the last step", format_bytes(need.growth), "in addition"))
    _print_rows(out, ("alive at the peak", "size", "share"), rows)


def _print_holders(out: "Console", answer: Answer, by: str, heading: str) -> None:
    rows = holder_rows(answer, by)[:_HOLDERS]
    if rows:
        headings = (f"{heading} that holds most at an iteration's peak", "size", "blocks")
        _print_rows(out, headings, rows)


def _print_alternatives(out: "Console", answer: Answer) -> None:
    rows, notes = alternative_rows(answer)
    _print_rows(out, ("what if", "takes with pgmo", "fits", "time", "from"), rows)
    for number, how in enumerate(notes, 1):
        print_text(out, f"  [{number}] {how}")
    found = answer.least_change
    change = "nothing in the table fits" if found is None else found.name
    print_text(out, f"least change that fits: {change}")


def _print_cards(out: "Console", answer: Answer) -> None:
    headings = ("card", "usable", "takes", "fits", "without pgmo", "cards", "largest", "time")
    _print_rows(out, headings, card_rows(answer))
    print_text(
        out,
        "cards: number of cards needed if FSDP shards parameters, gradients and "
        "optimizer states; computed, not rehearsed",
    )


def _print_rows(out: "Console", headings: Sequence[str], rows: Iterable[Row]) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table(*headings)
    for row in rows:
        table.add_row(*map(escape, row))
    out.print(table)
