"""Rows of an answer's tables, for the terminal and for the HTML page."""

from pgmo.fit.answer import Answer
from pgmo.fit.two_values import BatchTable
from pgmo.units import format_bytes

Row = tuple[str, ...]


def holder_rows(answer: Answer, by: str) -> list[Row]:
    """Return name, size and number of blocks of each holder; `by` is "module" or "op"."""
    held = answer.holders.get(by, ())
    return [(one.name, format_bytes(one.size), str(one.blocks)) for one in held]


def alternative_rows(answer: Answer) -> tuple[list[Row], list[str]]:
    """Return name, bytes, whether it fits, time and source of each alternative, and all notes.

    A source with a note ends with the number of the note, as in "rehearsed [2]".
    """
    notes: list[str] = []
    rows: list[Row] = []
    for one in answer.alternatives:
        source = one.source
        if one.how:
            if one.how not in notes:
                notes.append(one.how)
            source += f" [{notes.index(one.how) + 1}]"
        takes = "-" if one.total is None else format_bytes(one.total)
        rows.append((one.name, takes, "yes" if one.fits else "no", one.time, source))
    return rows, notes


def card_rows(answer: Answer) -> list[Row]:
    """Return the rows of other cards, whose last two cells are "" if unknown.

    The cells are name, usable bytes, bytes taken with pgmo, whether the job fits with pgmo, whether
    it fits with PyTorch's default allocator, number of cards needed, largest value, and time.
    """
    return [
        (
            row.card.name,
            format_bytes(row.card.usable),
            format_bytes(row.total),
            "yes" if row.fits["pgmo"] else "no",
            "yes" if row.fits["default"] else "no",
            "more than 8" if row.ranks is None else str(row.ranks),
            "" if row.largest is None else str(row.largest),
            row.forecast.words if row.forecast else "",
        )
        for row in answer.cards
    ]


def batch_rows(found: BatchTable) -> list[Row]:
    """Return length, largest batch, and the source of each row of a table for two options."""
    return [
        (
            str(one.length),
            str(one.batch) if one.batch else "none fits",
            "a rehearsal" if one.proved else "a prediction",
        )
        for one in found.rows
    ]
