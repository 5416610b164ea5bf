"""Puts the reference of the command line, made from its parsers, where a page has the marker."""

from typing import Any

from pgmo.cli.reference import reference

_MARKER = "<!-- commands -->"


def _fill(app: Any, page: str, source: list[str]) -> None:
    if _MARKER in source[0]:
        source[0] = source[0].replace(_MARKER, reference())


def setup(app: Any) -> dict[str, bool]:
    """Fills the marker in whatever page has it."""
    app.connect("source-read", _fill)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
