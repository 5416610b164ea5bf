"""Output of `pgmo fit`: an answer in one sentence, and tables with details."""

from typing import TYPE_CHECKING

from pgmo.cli.terminal.output import print_text
from pgmo.fit.laws.need import CATEGORIES
from pgmo.rehearsal.environment import WAYS
from pgmo.units import format_bytes

if TYPE_CHECKING:
    from rich.console import Console

    from pgmo.cards import Card
    from pgmo.fit.answer import Answer
    from pgmo.fit.two_values import BatchTable

_HOLDERS = 5


def print_answer(out: "Console", answer: "Answer") -> None:
    """Print an answer."""
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


def print_table(out: "Console", found: "BatchTable", card: "Card") -> None:
    """Print the largest batch for each length."""
    from rich.table import Table

    first, second = found.options
    table = Table(second, f"largest {first}", "shown by")
    for row in found.rows:
        how = "a rehearsal" if row.proved else "a prediction"
        table.add_row(str(row.length), str(row.batch) if row.batch else "none fits", how)
    print_text(out, f"The largest {first} for each {second} on {card.name} with pgmo:")
    out.print(table)
    print_text(out, f"rehearsed   {found.rehearsals} times, {found.seconds:.0f} s")


def _print_largest(out: "Console", answer: "Answer") -> None:
    from rich.table import Table

    from pgmo.fit.answer import NAMES

    table = Table("largest", "with", "takes", "of", "shown by")
    for one in answer.largest:
        takes = format_bytes(one.need.total(one.way)) if one.need else "-"
        with_what = NAMES[one.way] if one.change is None else f"{one.change}, {NAMES[one.way]}"
        how = "a rehearsal" if one.proved else "a prediction"
        table.add_row(str(one.value), with_what, takes, format_bytes(answer.card.usable), how)
    out.print(table)


def _print_ways(out: "Console", answer: "Answer") -> None:
    from rich.table import Table

    from pgmo.fit.answer import NAMES

    at = "" if answer.value is None else f" at {answer.value}"
    table = Table(f"peak of the card{at}", "takes", "left", "fits")
    for way in WAYS:
        total = answer.need.total(way)
        left = answer.card.usable - total
        fits = "yes" if answer.fits[way] else "no"
        if answer.fits[way] and left < 0:
            fits = "yes, by freeing cached memory"
        table.add_row(NAMES[way], format_bytes(total), format_bytes(left), fits)
    out.print(table)


def _print_categories(out: "Console", answer: "Answer") -> None:
    from rich.table import Table

    need = answer.need
    sizes = {**need.categories, "context": need.context}
    whole = sum(sizes.values())
    table = Table("alive at the peak", "size", "share")
    for name, size in sizes.items():
        table.add_row(CATEGORIES[name], format_bytes(size), f"{size / whole:.1%}")
    if need.growth:
        table.add_row("growth until the last step", format_bytes(need.growth), "more")
    out.print(table)


def _print_holders(out: "Console", answer: "Answer", by: str, heading: str) -> None:
    from rich.table import Table

    held = answer.holders.get(by, ())[:_HOLDERS]
    if not held:
        return
    table = Table(f"{heading} that holds most at an iteration's peak", "size", "blocks")
    for one in held:
        table.add_row(one.name, format_bytes(one.size), str(one.blocks))
    out.print(table)


def _print_alternatives(out: "Console", answer: "Answer") -> None:
    from rich.table import Table

    table = Table("what if", "takes with pgmo", "fits", "time", "from")
    notes: dict[str, int] = {}
    for one in answer.alternatives:
        takes = "-" if one.total is None else format_bytes(one.total)
        number = f" [{notes.setdefault(one.how, len(notes) + 1)}]" if one.how else ""
        fits = "yes" if one.fits else "no"
        table.add_row(one.name, takes, fits, one.time, one.source + number.replace("[", "\\["))
    out.print(table)
    for how, at in notes.items():
        print_text(out, f"  [{at}] {how}")
    found = answer.least_change
    change = "nothing in the table fits" if found is None else f"{found.name}"
    print_text(out, f"least change that fits: {change}")


def _print_cards(out: "Console", answer: "Answer") -> None:
    from rich.table import Table

    table = Table("card", "usable", "takes", "fits", "without pgmo", "cards", "largest", "time")
    for row in answer.cards:
        table.add_row(
            row.card.name,
            format_bytes(row.card.usable),
            format_bytes(row.total),
            "yes" if row.fits["pgmo"] else "no",
            "yes" if row.fits["default"] else "no",
            "more than 8" if row.ranks is None else str(row.ranks),
            "" if row.largest is None else str(row.largest),
            row.forecast.words if row.forecast else "",
        )
    out.print(table)
    print_text(
        out,
        "cards: how many are needed if they share parameters, gradients and "
        "states (FSDP); computed",
    )
