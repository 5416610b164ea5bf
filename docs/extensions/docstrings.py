"""Docstrings and signatures for Sphinx: drawings are literal, and types of arrays short.

A drawing is an indented paragraph outside of sections such as "Args:".
"""

import re
from typing import Any

from docutils import nodes
from numpy.typing import ArrayLike
from sphinx.util.typing import stringify_annotation

_ARRAY = re.compile(
    r"~?numpy\.ndarray\[tuple\[~?typing\.Any, \.\.\.\], ~?numpy\.dtype\[~?numpy\.(\w+)\]\]"
)
_SECTION = re.compile(r"^[A-Z][A-Za-z ]*:$")


def literal_drawings(lines: list[str]) -> list[str]:
    """Insert a directive before each drawing.

    Example:
        >>> literal_drawings(["Time.", "", "    |--|", "", "Args:", "    a: one."])
        ['Time.', '', '.. code-block:: text', '', '    |--|', '', 'Args:', '    a: one.']
    """
    made: list[str] = []
    in_section = in_drawing = False
    for index, line in enumerate(lines):
        if line and not line[0].isspace():
            in_section, in_drawing = bool(_SECTION.match(line)), False
        elif line.startswith("    ") and not in_section and not in_drawing:
            if index and not lines[index - 1].strip():
                made += [".. code-block:: text", ""]
            in_drawing = True
        made.append(line)
    return made


def short_types(text: str) -> str:
    """Replace array types, which Python has expanded, by their names in the source.

    Example:
        >>> short_types("~numpy.ndarray[tuple[~typing.Any, ...], ~numpy.dtype[~numpy.int64]]")
        'NDArray[int64]'
    """
    like = stringify_annotation(ArrayLike, "smart")
    return _ARRAY.sub(r"NDArray[\1]", text).replace(like, "ArrayLike").replace("<factory>", "...")


def _process(app: Any, what: str, name: str, subject: Any, options: Any, lines: list[str]) -> None:
    lines[:] = literal_drawings(lines)


def _process_signature(
    app: Any, what: str, name: str, subject: Any, options: Any, signature: Any, returns: Any
) -> tuple[Any, Any]:
    return tuple(short_types(text) if text else text for text in (signature, returns))


def _dashes(app: Any, tree: Any) -> None:
    """Write dashes between parameters and their meanings, because `smartquotes` is off."""
    for text in list(tree.findall(nodes.Text)):
        if text.astext() == " -- ":
            text.parent.replace(text, nodes.Text(" \N{EN DASH} "))


def setup(app: Any) -> dict[str, bool]:
    """Process docstrings before napoleon, which turns their sections into markup."""
    app.connect("doctree-read", _dashes)
    app.connect("autodoc-process-signature", _process_signature)
    app.connect("autodoc-process-docstring", _process, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
