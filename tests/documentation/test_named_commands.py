"""Tests that commands and options exist if messages, docstrings or pages name them."""

import ast
import re
from pathlib import Path

import pytest

from pgmo.cli.catalog import COMMANDS
from pgmo.cli.parser import build_parser, parsers_of

ROOT = Path(__file__).parents[2]

HISTORY = ("removed.py", "changelog.md", "options.md")
"""Files that name removed commands and options."""

QUOTED = re.compile(r"`(?:\$ )?pgmo ([a-z]+)((?: [^`]*)?)`")
LINE = re.compile(rf"^ *(?:\$ )?pgmo ({'|'.join(COMMANDS)})((?: [^`\n]*)?)$", re.MULTILINE)
WITHOUT_OPTIONS = ("run", "rehearse", "fit", "recompute", "share")
"""Commands with a script behind them, whose options are not those of the command."""


def texts(path: Path) -> str:
    """Return the text of a page, or all string literals of a module."""
    text = path.read_text("utf-8")
    if path.suffix == ".md":
        return text
    nodes = ast.walk(ast.parse(text))
    return "\n".join(
        one.value for one in nodes if isinstance(one, ast.Constant) and isinstance(one.value, str)
    )


def own_options(command: str, words: str) -> list[str]:
    """Return the options of a command, without quoted ones and those behind a script's name."""
    words = re.sub(r"\"[^\"]*\"|'[^']*'", "", words)
    ends = r"\S+\.py|SCRIPT| -- | -m "
    before = re.split(ends, words)[0] if command in WITHOUT_OPTIONS else words
    return re.findall(r"(?<![\w-])(--[a-z][a-z-]*)", before)


@pytest.mark.parametrize("pattern", ["pgmo/**/*.py", "docs/**/*.md", "README.md"])
def test_named_commands_and_options_exist(pattern):
    parsers = parsers_of(build_parser(fill=True))
    wrong, count = [], 0
    for path in ROOT.glob(pattern):
        if path.name in HISTORY:
            continue
        text = texts(path)
        for command, words in QUOTED.findall(text.replace("\n", " ")) + LINE.findall(text):
            count += 1
            known = parsers[command]._option_string_actions if command in COMMANDS else {}
            strange = [one for one in own_options(command, words) if one not in known]
            if command not in COMMANDS or strange:
                wrong.append(f"{path.relative_to(ROOT)}: pgmo {command}{words}")
    assert count > 3
    assert wrong == []
