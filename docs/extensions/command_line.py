"""Reference of the command line, made from its parsers and inserted at a marker in a page."""

import argparse
from collections.abc import Iterator
from typing import Any

from pgmo.cli.catalog import COMMANDS, STAGES
from pgmo.cli.parser import CommandParser, build_parser, parsers_of

_MARKER = "<!-- commands -->"

_WIDTH = 88
"""Width of usage lines, in columns."""


def reference() -> str:
    """Return all commands with description, usage and options, grouped by stage.

    Headings begin at the second level, because the page has a title.

    Example:
        >>> text = reference()
        >>> text.index("## Profiles and plans") < text.index("### `pgmo plan`")
        True
    """
    parser = build_parser(fill=True)
    commands = parsers_of(parser)
    parts = [
        _code(_usage(parser)),
        *_options(parser),
        parser.epilog or "",
    ]
    for stage, title in STAGES.items():
        names = [name for name, own in COMMANDS.items() if own == stage]
        parts.append(f"## {title}")
        for name in names:
            parts += _command(name, commands[name])
    return "\n\n".join(parts) + "\n"


def _command(name: str, parser: CommandParser) -> Iterator[str]:
    yield f"### `pgmo {name}`"
    # Paragraphs with columns are literal.
    for paragraph in (parser.description or "").split("\n\n"):
        yield _code(paragraph) if _has_columns(paragraph) else paragraph
    yield _code(_usage(parser))
    yield from _options(parser)


def _usage(parser: argparse.ArgumentParser) -> str:
    class Formatter(argparse.HelpFormatter):
        def __init__(self, prog: str) -> None:
            super().__init__(prog, width=_WIDTH)

    parser.formatter_class = Formatter
    lines = parser.format_usage().rstrip().splitlines()
    return "\n".join(line[len("usage: ") :] for line in lines)  # later lines are indented, too


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    rows = [
        f"| {_names(action)} | {_cell(_help(parser, action))} |"
        for action in parser._actions
        if action.help != argparse.SUPPRESS and not isinstance(action.choices, dict)
    ]
    yield "\n".join(["| argument | meaning |", "|---|---|", *rows])


def _names(action: argparse.Action) -> str:
    """Return the spellings of an argument, as "`-o`, `--output FILE`"."""
    value = _value(action)
    if not action.option_strings:
        return f"`{value}`"
    names = [f"`{name}`" for name in action.option_strings]
    if value:
        names[-1] = f"`{action.option_strings[-1]} {value}`"
    return ", ".join(names)


def _value(action: argparse.Action) -> str:
    if action.nargs == 0:
        return ""
    if action.choices is not None:
        return " or ".join(str(choice) for choice in action.choices)
    return str(action.metavar or action.dest.upper())


def _help(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    """Return the help text, with values for argparse's names such as %(default)s."""
    values = {**vars(action), "prog": parser.prog}
    return (action.help or "") % values


def _has_columns(paragraph: str) -> bool:
    return any("  " in line.strip() for line in paragraph.splitlines())


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _code(text: str) -> str:
    return f"```text\n{text}\n```"


def _fill(app: Any, page: str, source: list[str]) -> None:
    if _MARKER in source[0]:
        source[0] = source[0].replace(_MARKER, reference())


def setup(app: Any) -> dict[str, bool]:
    """Insert the reference in the page that has the marker."""
    app.connect("source-read", _fill)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
