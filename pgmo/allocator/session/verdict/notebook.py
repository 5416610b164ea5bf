"""What notebooks show of sessions: the verdict, and the lines of the summary.

Text and lines have the colour of the text around them, so that it can be read in any theme.
"""

from html import escape

_MOST = 40
"""Lines that are shown."""

_LONGEST = 300
"""Characters of a line."""


def summary_html(text: str, *, title: str = "pgmo", state: str = "") -> str:
    """Return a summary as a small fragment of HTML, without a script.

    Args:
        text: of the summary.
        title: whose it is.
        state: what the session does at the moment; "" for nothing that has to be said.

    Example:
        >>> summary_html("pgmo: no iteration was seen").count("<div")
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
        f"<b>{escape(title)}</b>{told}: {escape(_cut(sentence))}</p>{details}</div>"
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
