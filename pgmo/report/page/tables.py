"""Tables of origins at the peak and of advice, without scripts."""

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
    """Return an explanation as tables."""
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
    heads = "".join(f"<th class='number'>{name}</th>" for name in (*sizes, "captures"))
    rows = "".join(
        f"<tr><th scope='row'>{html.escape(f'{one.pool} {one.kind}')}</th>"
        + "".join(f"<td class='number'>{format_bytes(getattr(one, name))}</td>" for name in sizes)
        + f"<td class='number'>{one.captures or ''}</td></tr>"
        for one in found.pools
    )
    return (
        f"<section><h3>Private pools</h3><p>{html.escape(found.sentence())}.</p><table><thead><tr>"
        f"<th>pool</th>{heads}</tr></thead><tbody>{rows}</tbody></table></section>"
    )


def _holders(heading: str, title: str, holders: Iterable[Holder], whole: int) -> str:
    rows = "".join(
        f"<tr><th scope='row'>{html.escape(one.name)}</th>"
        f"<td class='number'>{format_bytes(one.size)}</td>"
        f"<td class='number'>{one.size / whole:.1%}</td>"
        f"<td class='number'>{one.blocks:,}</td></tr>"
        for one in holders
        if whole
    )
    return (
        f"<section><h3>{heading}</h3><table><thead><tr><th>{title}</th>"
        "<th class='number'>bytes</th><th class='number'>share</th>"
        f"<th class='number'>blocks</th></tr></thead><tbody>{rows}</tbody></table></section>"
    )
