"""Tables and lists that need no scripts: advice, origins at the peak, private pools, keepers."""

import html
from collections.abc import Iterable

from pgmo.report.blocks.origins import By
from pgmo.report.findings.attribution import Holder
from pgmo.report.findings.pools import PrivatePools
from pgmo.report.summary import Explanation
from pgmo.units import format_bytes

_TITLES: dict[By, str] = {
    "phase": "phase",
    "module": "module",
    "op": "operator",
    "file": "line of code",
    "size": "size",
}


def static_tables(explanation: Explanation) -> str:
    """Return an explanation as tables that open on click; "" if all are empty."""
    parts = []
    hints = "".join(
        f"<li><b>{html.escape(hint.title)}.</b> {html.escape(hint.text)}</li>"
        for hint in explanation.hints
    )
    if hints:
        parts.append(f"<section><h3>What would help</h3><ul>{hints}</ul></section>")
    for by, title in _TITLES.items():
        holders = explanation.holders[by]
        if any(not one.name.startswith("(") for one in holders):
            when = "At the peak" if explanation.moment is None else "Allocated"
            parts.append(_holders(f"{when}, by {title}", title, holders, explanation.peak.size))
    if explanation.pools is not None:
        parts.append(_pools(explanation.pools))
    kept = explanation.kept
    parts += _list("Kept alive, and growing", kept.growing)
    parts += _list("Kept alive", kept.alive)
    if not parts:
        return ""
    summary = f"{'What would help, and who' if hints else 'Who'} holds memory, as tables"
    return f'<details class="static"><summary>{summary}</summary>{"".join(parts)}</details>'


def _list(heading: str, lines: Iterable[str]) -> list[str]:
    items = "".join(f"<li>{html.escape(one)}</li>" for one in lines)
    return [f"<section><h3>{heading}</h3><ul>{items}</ul></section>"] if items else []


def _pools(found: PrivatePools) -> str:
    sizes = ("reserved", "survivors", "temporaries")
    rows = (
        (
            f"{one.pool} {one.kind}",
            *(format_bytes(getattr(one, name)) for name in sizes),
            str(one.captures or ""),
        )
        for one in found.pools
    )
    heading = f"<h3>Private pools</h3><p>{html.escape(found.sentence())}.</p>"
    return _table(heading, ("pool", *sizes, "captures"), rows)


def _holders(heading: str, title: str, holders: Iterable[Holder], whole: int) -> str:
    rows = (
        (one.name, format_bytes(one.size), f"{one.size / whole:.1%}", f"{one.blocks:,}")
        for one in holders
        if whole
    )
    return _table(f"<h3>{heading}</h3>", (title, "bytes", "share", "blocks"), rows)


def _table(heading: str, names: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    heads = "".join(f"<th class='number'>{name}</th>" for name in names[1:])
    body = "".join(
        f"<tr><th scope='row'>{html.escape(name)}</th>"
        + "".join(f"<td class='number'>{number}</td>" for number in numbers)
        + "</tr>"
        for name, *numbers in rows
    )
    return (
        f"<section>{heading}<table><thead><tr><th>{names[0]}</th>{heads}</tr></thead>"
        f"<tbody>{body}</tbody></table></section>"
    )
