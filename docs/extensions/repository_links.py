"""Links from a page to a file of the repository that is not a page.

These links work in the repository. The site does not contain the file, so it shows the file's name.
"""

import re
from pathlib import Path
from typing import Any

_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((\.\.?/[^)#\s]+)(#[^)]*)?\)")


def name_files(text: str, page: Path, pages: Path) -> str:
    """Replace links to existing files outside of `pages` by their text and the file's name.

    Example:
        >>> pages = Path("docs").resolve()
        >>> name_files("See [how](../setup.py).", pages / "a.md", pages)
        'See how (`setup.py`).'
    """

    def name(found: re.Match[str]) -> str:
        target = (page.parent / found[2]).resolve()
        if not target.exists() or target.is_relative_to(pages):
            return found[0]
        return f"{found[1]} (`{target.relative_to(pages.parent)}`)"

    return _LINK.sub(name, text)


def _read(app: Any, page: str, source: list[str]) -> None:
    source[0] = name_files(source[0], Path(app.env.doc2path(page)), Path(app.srcdir))


def setup(app: Any) -> dict[str, bool]:
    """Process each page before it is read."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
