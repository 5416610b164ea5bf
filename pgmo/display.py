"""How notebooks show the reports of profiles and plans.

The report imports profiles and plans. They import it when it is first shown.
"""

import importlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pgmo.files.replacement import replace_file

_REPORT = "pgmo.report.page.html"


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


def show_report(
    profile: Any, plan: Any = None, *, height: int = 900, headline: str = ""
) -> NotebookFrame:
    """Return the report of a profile for a notebook.

    Args:
        profile: the profile.
        plan: its plan; a quick one is made if there is none.
        height: in pixels.
        headline: with what the page begins; see `pgmo.report.page.html.render`.

    Raises:
        ProfileError: when the plan is one of another profile.
    """
    render = importlib.import_module(_REPORT).render
    return NotebookFrame(render(profile, plan, headline=headline), height)
