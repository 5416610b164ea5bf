"""Notebook display of reports on profiles and plans; imports `pgmo.report` on first use."""

import importlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pgmo.files.replacement import replace_file

_REPORT = "pgmo.report.page.html"


@dataclass(frozen=True)
class NotebookFrame:
    """HTML page that a notebook displays in a frame; `height` is in pixels."""

    page: str
    height: int = 900

    def __repr__(self) -> str:
        return f"NotebookFrame({len(self.page):,} characters of HTML; shown by notebooks)"

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page to a file for any browser, replacing an existing file.

        Args:
            path: file to write.

        Returns:
            The path of the file.

        Raises:
            FileError: if the file cannot be written.

        Example:
            >>> session.report().save("report.html")  # doctest: +SKIP
            PosixPath('report.html')
        """
        # Names may contain lone surrogates, from file names that are not UTF-8.
        replace_file(Path(path), self.page.encode(errors="replace"))
        return Path(path)

    def _repr_html_(self) -> str:
        from html import escape  # Loads a large table that only notebooks need.

        # In the sandbox, scripts run but cannot access the notebook.
        return (
            f'<iframe srcdoc="{escape(self.page)}" width="100%" height="{self.height}" '
            'style="border:0;background:#fff" sandbox="allow-scripts allow-downloads"></iframe>'
        )


def show_report(
    profile: Any, plan: Any = None, *, height: int = 900, headline: str = ""
) -> NotebookFrame:
    """Return the report on a profile for a notebook.

    Args:
        profile: the profile.
        plan: a plan of the profile; None makes a quick plan.
        height: height in pixels.
        headline: first sentence of the page; "" for the sentence that the report computes.

    Raises:
        ProfileError: if the plan belongs to another profile.
    """
    render = importlib.import_module(_REPORT).render
    return NotebookFrame(render(profile, plan, headline=headline), height)
