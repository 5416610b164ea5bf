"""How profiles and plans show themselves in notebooks, without knowing who draws them.

The report knows profiles and plans. They know its name alone, and ask for it when they are drawn.
"""

import importlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from pgmo.files.replacement import replace_file

_FORMATTER = "pgmo.report.page.notebook"


@dataclass(frozen=True)
class NotebookFrame:
    """A whole page inside of a notebook: what `show()` returns.

    Args:
        page: the text of an HTML page that needs nothing else.
        height: in pixels.

    Example:
        >>> NotebookFrame("<!doctype html><p>5 > 3", height=100)._repr_html_()[:42]
        '<iframe srcdoc="&lt;!doctype html&gt;&lt;p'
    """

    page: str
    height: int = 900

    def __repr__(self) -> str:
        return f"NotebookFrame({len(self.page):,} characters of HTML; shown by notebooks)"

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the page to a file, for any browser; what is there is replaced.

        Raises:
            FileError: when the file cannot be written.

        Example:
            >>> session.report().save("report.html")  # doctest: +SKIP
            PosixPath('report.html')
        """
        # Names may hold halves of surrogate pairs, from file names that are no UTF-8.
        replace_file(Path(path), self.page.encode(errors="replace"))
        return Path(path)

    def _repr_html_(self) -> str:
        from html import escape  # and the names of all characters, which only notebooks need

        # In a sandbox: scripts run, but see nothing of the notebook.
        return (
            f'<iframe srcdoc="{escape(self.page)}" width="100%" height="{self.height}" '
            'style="border:0;background:#fff" sandbox="allow-scripts allow-downloads"></iframe>'
        )


class Formatter(Protocol):
    """A module that draws profiles and plans."""

    def profile_html(self, profile: Any) -> str:
        """A profile as a fragment of HTML."""

    def plan_html(self, plan: Any) -> str:
        """A plan as a fragment of HTML."""

    def show(
        self, profile: Any, plan: Any = None, *, height: int = 900, headline: str = ""
    ) -> NotebookFrame:
        """The whole report of a profile."""


def formatter() -> Formatter:
    """Who draws; imported when something is first drawn."""
    return cast("Formatter", importlib.import_module(_FORMATTER))
