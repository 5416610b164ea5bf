"""One script and one style sheet out of many small files, for a page that loads nothing."""

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files

_IMPORT = re.compile(r'^import\s[^;]*?from\s+"\./([\w-]+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export\s+(?=(?:async\s+)?(?:function|class|const|let)\b)", re.MULTILINE)


def asset(name: str) -> str:
    """The text of a file in `pgmo/report/assets`.

    Example:
        >>> "<html" in asset("report.html")
        True
    """
    return files("pgmo.report").joinpath("assets", name).read_text(encoding="utf-8")


@cache
def script() -> str:
    """The page's modules as one, each after those it imports; uPlot with its notice comes first.

    The files are ES modules and work as such. All names at their top level differ, so taking the
    `import` and `export` words away is all that it takes to join them.

    Example:
        >>> "import {" in script()
        False
    """
    done: dict[str, str] = {}

    def add(name: str) -> None:
        if name in done:
            return
        done[name] = ""  # so that a circle of imports ends
        text = asset(f"js/{name}.js")
        for needed in _IMPORT.findall(text):
            add(needed)
        del done[name]
        done[name] = _EXPORT.sub("", _IMPORT.sub("", text)).strip()

    add("main")
    notice = f"/*! {asset('vendor/uPlot.LICENSE').strip()} */"  # which a copy has to carry
    return "\n".join([notice, asset("vendor/uPlot.iife.min.js").strip(), *done.values()])


@cache
def style() -> str:
    """The style sheets as one."""
    return "\n".join([asset("vendor/uPlot.min.css").strip(), asset("report.css").strip()])


def source_hash(text: str) -> str:
    """What a content security policy admits this very text by.

    Example:
        >>> source_hash("")
        "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
    """
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
