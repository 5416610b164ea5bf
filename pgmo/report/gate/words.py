"""Text of a comparison, for terminals and pull requests."""

from collections.abc import Iterator, Mapping

from pgmo.report.blocks.origins import By
from pgmo.report.gate.gate import Gate
from pgmo.report.gate.growth import Figure, Grown, Growth
from pgmo.units import format_bytes

_KINDS: Mapping[By, str] = {"module": "module", "op": "operator"}

_MOST_IN_MARKDOWN = 3
"""Maximum number of modules, and of operators, that Markdown lists per figure of a program."""


def verdict(gate: Gate) -> str:
    """Return the result of a comparison in one line."""
    failed = [program.name for program in gate.programs if program.failed]
    parts = []
    if failed:
        several = "exceed" if len(failed) > 1 else "exceeds"
        parts.append(
            f"{len(failed)} of {len(gate.programs)} programs {several} the earlier state by more "
            f"than {gate.tolerance}: {', '.join(failed)}."
        )
    if gate.gone:
        parts.append(f"No longer recorded: {', '.join(gate.gone)}.")
    if parts:
        return " ".join(parts)
    if not gate.programs:
        return "Nothing was compared: no program has an earlier state."
    return f"No program exceeds its earlier state by more than {gate.tolerance}."


def text_lines(gate: Gate) -> Iterator[str]:
    """Yield the result of a comparison in lines of text, for a terminal."""
    yield verdict(gate)
    for program in gate.programs:
        for figure in program.figures:
            state = "FAILED" if figure.failed else "ok    "
            before, after = (_count(figure, count) for count in (figure.before, figure.after))
            yield f"{state}  {program.name}, {figure.name}: {before} -> {after}{_percent(figure)}"
            if figure.failed:
                yield from (f"          {line}" for line in grown_lines(figure))
    for name in gate.new:
        yield f"new     {name}: no earlier state to compare with"
    for name in gate.gone:
        yield f"FAILED  {name}: was recorded before, and is missing now"


def grown_lines(figure: Figure, top: int = 5, *, markdown: bool = False) -> Iterator[str]:
    """Yield up to `top` grown modules and the number of others, then the same for operators."""
    for by, kind in _KINDS.items():
        rows = [one for one in figure.grown if one.by == by]
        for one in rows[:top]:
            counts = (one.before, one.after, one.growth)
            before, after, more = (_count(figure, count) for count in counts)
            if markdown:
                yield f"- {kind} {_code(one.name)}: {before} → {after} (**+{more}**)"
            else:
                yield f"{kind} {one.name}: {before} -> {after} (+{more})"
        if len(rows) > top:
            yield f"{'- ' if markdown else ''}and {len(rows) - top} more {kind}s"


def markdown_lines(gate: Gate) -> Iterator[str]:
    """Yield a table for a pull request: one row per program, then the grown origins."""
    yield "### Memory"
    yield ""
    yield _escaped(verdict(gate))
    names = [figure.name for figure in gate.programs[0].figures] if gate.programs else []
    if gate.programs:
        yield ""
        yield f"| program | {' | '.join(names)} |"
        yield f"| --- |{' ---: |' * len(names)}"
        for program in gate.programs:
            cells = " | ".join(_cell(figure) for figure in program.figures)
            yield f"| {_code(program.name)} | {cells} |"
    for program in gate.programs:
        yield from _lines_of_growth(program)
    for title, absent in (
        ("Without an earlier state", gate.new),
        ("No longer recorded", gate.gone),
    ):
        if absent:
            yield ""
            yield f"{title}: {', '.join(_code(name) for name in absent)}."


def _lines_of_growth(program: Growth) -> Iterator[str]:
    """Yield lines on the origins of failed figures. Equal lists of origins are shown once."""
    listed: set[tuple[Grown, ...]] = set()
    for figure in program.figures:
        if not figure.failed or not figure.grown or figure.grown in listed:
            continue
        listed.add(figure.grown)
        yield ""
        what = "at the peak" if figure.name in ("max load", "arena") else figure.name
        yield f"{_code(program.name)}, {what}:"
        yield ""
        yield from grown_lines(figure, _MOST_IN_MARKDOWN, markdown=True)


def _count(figure: Figure, count: int | None) -> str:
    if count is None:
        return "not known"
    return str(count) if figure.unit == "blocks" else format_bytes(count)


def _cell(figure: Figure) -> str:
    after = _count(figure, figure.after)
    if figure.before == figure.after:
        return after
    text = f"{_count(figure, figure.before)} → {after}{_percent(figure)}"
    return f"**{text}**" if figure.failed else text


def _percent(figure: Figure) -> str:
    if not figure.before or figure.after is None or figure.after == figure.before:
        return ""
    return f" ({(figure.after - figure.before) / figure.before:+.1%})"


def _code(name: str) -> str:
    """Format a name as Markdown code, so that markup in it has no effect."""
    return f"`{_one_line(name).replace('`', chr(39)).replace('|', chr(0x2502))}`"


def _escaped(text: str) -> str:
    return "".join(f"\\{one}" if one in "\\`*_<>[]|#" else one for one in _one_line(text))


def _one_line(text: str) -> str:
    return " ".join(text.split())
