"""Script and style sheet of a page, each joined from several files: the page loads no files."""

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files

_IMPORT = re.compile(r'^import\s[^;]*?from\s+"\./([\w-]+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export\s+(?=(?:async\s+)?(?:function|class|const|let)\b)", re.MULTILINE)


def asset(name: str) -> str:
    """Return the text of a file in `pgmo/report/assets`."""
    return files("pgmo.report").joinpath("assets", name).read_text(encoding="utf-8")


@cache
def script() -> str:
    """Return uPlot and the page's JavaScript modules as one script, imported modules first.

    The modules' top-level names are unique, so it suffices to remove `import` and `export`.
    """
    done: dict[str, str] = {}

    def add(name: str) -> None:
        if name in done:
            return
        done[name] = ""  # so that a cycle of imports ends
        text = asset(f"js/{name}.js")
        for needed in _IMPORT.findall(text):
            add(needed)
        del done[name]
        done[name] = _EXPORT.sub("", _IMPORT.sub("", text)).strip()

    add("main")
    notice = f"/*! {asset('vendor/uPlot.LICENSE').strip()} */"  # its licence requires the notice
    return "\n".join([notice, asset("vendor/uPlot.iife.min.js").strip(), *done.values()])


@cache
def style() -> str:
    """Return the page's style sheets as one text."""
    return "\n".join([asset("vendor/uPlot.min.css").strip(), asset("report.css").strip()])


def source_hash(text: str) -> str:
    """Return the source expression by which a content security policy allows a script or style."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
