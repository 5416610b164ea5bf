"""HTML tables of the page."""

from collections.abc import Iterable, Sequence
from html import escape

from pgmo.fit.answer import Answer
from pgmo.units import format_bytes


def alternatives(answer: Answer) -> str:
    """Return the table of alternatives, with the source of each figure."""
    if not answer.alternatives:
        return ""
    notes: dict[str, int] = {}
    rows, marked = [], []
    for one in answer.alternatives:
        number = notes.setdefault(one.how, len(notes) + 1) if one.how else None
        source = one.source if number is None else f"{one.source} [{number}]"
        takes = "" if one.total is None else format_bytes(one.total)
        rows.append((one.name, takes, "yes" if one.fits else "no", one.time, source))
        marked.append(one is answer.least_change)
    made = table(("", "takes", "fits", "time", "from"), rows, numbers=(1,), marked=marked)
    listed = "".join(f"<li>{escape(how)}</li>" for how in notes)
    least = answer.least_change
    conclusion = (
        "None of these changes fits." if least is None else f"Least change that fits: {least.name}."
    )
    return f'<p>{escape(conclusion)}</p>{made}<ol class="notes">{listed}</ol>'


def cards(answer: Answer) -> str:
    """Return the table of other cards."""
    if not answer.cards:
        return ""
    varies = any(row.largest is not None for row in answer.cards)
    headings = ["card", "usable", "takes", "fits", "without pgmo", "cards"]
    headings += [f"largest {answer.option}"] if varies else []
    timed = any(row.forecast is not None for row in answer.cards)
    headings += ["time"] if timed else []
    rows = []
    for row in answer.cards:
        cells = [
            row.card.name,
            format_bytes(row.card.usable),
            format_bytes(row.total),
            "yes" if row.fits["pgmo"] else "no",
            "yes" if row.fits["default"] else "no",
            "more than 8" if row.ranks is None else str(row.ranks),
        ]
        cells += ["" if row.largest is None else str(row.largest)] if varies else []
        cells += [row.forecast.words if row.forecast else ""] if timed else []
        rows.append(cells)
    note = (
        "Cards: how many cards the job needs if the cards share parameters, gradients and states "
        "(fully sharded); computed, not rehearsed. Times without a measured step are lower bounds."
    )
    return table(headings, rows, numbers=(1, 2, 5, 6)) + f'<p class="quiet">{note}</p>'


def holders(answer: Answer) -> str:
    """Return the tables of modules and operators, by their bytes at the peak."""
    made = []
    for by, heading in (("module", "module"), ("op", "operator")):
        held = answer.holders.get(by, ())
        if held:
            rows = [(one.name, format_bytes(one.size), str(one.blocks)) for one in held]
            made.append(table((heading, "size", "blocks"), rows, numbers=(1, 2)))
    return '<div style="height:10px"></div>'.join(made)


def table(
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    numbers: Sequence[int] = (),
    marked: Sequence[bool] = (),
) -> str:
    """Return a table; `numbers` are right-aligned columns, and `marked` rows are highlighted."""
    head = "".join(f"<th>{escape(one)}</th>" for one in headings)
    body = []
    for at, row in enumerate(rows):
        cells = []
        for column, text in enumerate(row):
            kind = "number" if column in numbers else text if text in ("yes", "no") else ""
            name = f' class="{kind}"' if kind else ""
            cells.append(f"<td{name}>{escape(text)}</td>")
        least = ' class="least"' if at < len(marked) and marked[at] else ""
        body.append(f"<tr{least}>{''.join(cells)}</tr>")
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )
