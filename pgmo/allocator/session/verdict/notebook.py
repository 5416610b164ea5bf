"""What notebooks show of sessions: the verdict, two bars, and the lines of the summary.

Text and lines have the colour of the text around them, so that it can be read in any theme.
"""

from html import escape

from pgmo.allocator.session.verdict.verdict import Verdict
from pgmo.units import format_bytes

_MOST = 40
"""Lines that are shown."""

_LONGEST = 300
"""Characters of a line."""


def summary_html(
    text: str, verdict: Verdict | None, *, title: str = "pgmo", state: str = ""
) -> str:
    """Return a summary as a small fragment of HTML, without a script.

    Args:
        text: of the summary.
        verdict: of the summary; None without one.
        title: whose it is.
        state: what the session does at the moment; "" for nothing that has to be said.

    Example:
        >>> summary_html("pgmo: no iteration was seen", None).count("<div")
        1
    """
    first, *lines = text.splitlines()
    sentence = first.removeprefix("pgmo: ")
    told = f' <span style="opacity:.65">({escape(state)})</span>' if state else ""
    rows = "".join(_row(line) for line in lines[:_MOST])
    details = (
        '<details><summary style="cursor:pointer;opacity:.75">Details</summary>'
        # Pages without a doctype give tables the colour and the size of the page, not of the text.
        '<table style="border-collapse:collapse;margin:.3em 0;color:inherit;font-size:inherit">'
        f"{rows}</table></details>"
        if rows
        else ""
    )
    return (
        '<div style="max-width:60em;line-height:1.4"><p style="margin:.3em 0">'
        f"<b>{escape(title)}</b>{told}: {escape(_cut(sentence))}</p>{_bars(verdict)}{details}</div>"
    )


def _bars(verdict: Verdict | None) -> str:
    """What was needed beside what plain PyTorch would have reserved, where both are known."""
    if verdict is None or not verdict.taken or not verdict.plain:
        return ""
    most = max(verdict.taken, verdict.plain)
    return "".join(
        '<p style="margin:2px 0;font-size:85%"><span style="display:inline-block;'
        f"height:.8em;width:{100 * size / most * 0.55:.1f}%;background:currentColor;"
        f'opacity:{opacity};vertical-align:middle"></span> {escape(text)}</p>'
        for size, opacity, text in (
            (verdict.taken, 0.75, f"{format_bytes(verdict.taken)} with pgmo, counted"),
            (verdict.plain, 0.3, f"{format_bytes(verdict.plain)} with plain PyTorch, modelled"),
        )
    )


def _row(line: str) -> str:
    name, _, text = line.strip().partition(" ")
    return (
        '<tr><th style="text-align:left;vertical-align:top;padding:1px 1em 1px 0;opacity:.75">'
        f'{escape(name)}</th><td style="text-align:left;padding:1px 0">'
        f"{escape(_cut(text.strip()))}</td></tr>"
    )


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
