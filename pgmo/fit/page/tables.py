"""HTML tables of the page."""

from collections.abc import Iterable, Sequence
from html import escape

from pgmo.fit.answer import Answer
from pgmo.fit.rows import alternative_rows, card_rows, holder_rows


def alternatives(answer: Answer) -> str:
    """Return the table of alternatives, with the source of each figure; "" if there are none."""
    if not answer.alternatives:
        return ""
    rows, notes = alternative_rows(answer)
    least = answer.least_change
    marked = [one is least for one in answer.alternatives]
    made = table(("", "takes", "fits", "time", "from"), rows, numbers=(1,), marked=marked)
    listed = "".join(f"<li>{escape(how)}</li>" for how in notes)
    conclusion = (
        "Nothing in the table fits." if least is None else f"Least change that fits: {least.name}."
    )
    if least is not None and not least.rank:
        conclusion = "The unchanged job fits with pgmo."
    return f'<p>{escape(conclusion)}</p>{made}<ol class="notes">{listed}</ol>'


def cards(answer: Answer) -> str:
    """Return the table of other cards, without empty columns; "" if there are no cards."""
    if not answer.cards:
        return ""
    columns = ["card", "usable", "takes", "fits", "without pgmo", "cards"]
    columns += [f"largest {answer.option}", "time"]
    rows = card_rows(answer)
    filled = [at for at in range(len(columns)) if any(row[at] for row in rows)]
    note = (
        "Cards: how many cards the job needs if the cards share parameters, gradients and states "
        "(fully sharded); computed, not rehearsed. Times without a measured step assume the card's "
        "peak rates, and at a batch that was not rehearsed, work in proportion to the batch."
    )
    made = table(
        [columns[at] for at in filled],
        [[row[at] for at in filled] for row in rows],
        numbers=[place for place, at in enumerate(filled) if at in (1, 2, 5, 6)],
    )
    return f'{made}<p class="quiet">{note}</p>'


def holders(answer: Answer) -> str:
    """Return the tables of modules and operators, by their bytes at the peak."""
    made = []
    for by, heading in (("module", "module"), ("op", "operator")):
        if rows := holder_rows(answer, by):
            made.append(table((heading, "size", "blocks"), rows, numbers=(1, 2)))
    return '<div style="height:10px"></div>'.join(made)


def table(
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    numbers: Sequence[int] = (),
    marked: Sequence[bool] = (),
) -> str:
    """Return a table; `numbers` are right-aligned columns, and `marked` rows are highlighted."""
    head = []
    for column, heading in enumerate(headings):
        name = ' class="number"' if column in numbers else ""
        head.append(f"<th{name}>{escape(heading)}</th>")
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
        f'<div class="scroll"><table><thead><tr>{"".join(head)}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )
