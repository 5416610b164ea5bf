"""Text of a comparison, for terminals and pull requests."""

from collections.abc import Iterable, Iterator

from pgmo.report.gate.gate import Gate
from pgmo.report.gate.growth import ORIGINS, Figure, Grown, Growth
from pgmo.units import format_bytes

_OF = {"module": "modules", "op": "operators"}


def verdict(gate: Gate) -> str:
    """Return the first line of the text."""
    failed = [program.name for program in gate.programs if program.failed]
    parts = []
    if failed:
        several = "need" if len(failed) > 1 else "needs"
        parts.append(
            f"{len(failed)} of {len(gate.programs)} programs {several} more memory than before, by "
            f"more than {gate.tolerance}: {', '.join(failed)}."
        )
    if gate.gone:
        parts.append(f"No longer recorded: {', '.join(gate.gone)}.")
    if parts:
        return " ".join(parts)
    if not gate.programs:
        return "Nothing was compared: no program has an earlier state."
    return f"No program needs more memory than before, by more than {gate.tolerance}."


def text_lines(gate: Gate, top: int = 5) -> Iterator[str]:
    """Yield the lines of the whole text, for a terminal."""
    yield verdict(gate)
    for program in gate.programs:
        for figure in program.figures:
            state = "FAILED" if figure.failed else "ok    "
            before, after = (format_count(figure, count) for count in (figure.before, figure.after))
            yield f"{state}  {program.name}, {figure.name}: {before} -> {after}{_percent(figure)}"
            if figure.failed:
                yield from (f"          {line}" for line in grown_lines(figure, top))
    for name in gate.new:
        yield f"new     {name}: no earlier state to compare with"
    for name in gate.gone:
        yield f"FAILED  {name}: was recorded before, and is missing now"


def grown_lines(figure: Figure, top: int = 5) -> Iterator[str]:
    """Yield the origins that have grown, modules first."""
    for by in ORIGINS:
        rows = [one for one in figure.grown if one.by == by]
        for one in rows[:top]:
            yield f"{'module' if by == 'module' else 'operator'} {_row(figure, one)}"
        if len(rows) > top:
            yield f"and {len(rows) - top} more {_OF[by]}"


def markdown_lines(gate: Gate, top: int = 3) -> Iterator[str]:
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
        yield from _lines_of_growth(program, top)
    for title, absent in (
        ("Without an earlier state", gate.new),
        ("No longer recorded", gate.gone),
    ):
        if absent:
            yield ""
            yield f"{title}: {', '.join(_code(name) for name in absent)}."


def _lines_of_growth(program: Growth, top: int) -> Iterator[str]:
    """Yield lines on the origins of figures that have grown beyond the tolerance."""
    listed: set[tuple[Grown, ...]] = set()
    for figure in program.figures:
        if not figure.failed or not figure.grown or figure.grown in listed:
            continue
        listed.add(figure.grown)
        yield ""
        what = "at the peak" if figure.name in ("max load", "arena") else figure.name
        yield f"{_code(program.name)}, {what}:"
        yield ""
        for by in ORIGINS:
            rows = [one for one in figure.grown if one.by == by]
            yield from (f"- {_line_of_growth(figure, one)}" for one in rows[:top])
            if len(rows) > top:
                yield f"- and {len(rows) - top} more {_OF[by]}"


def _line_of_growth(figure: Figure, one: Grown) -> str:
    kind = "module" if one.by == "module" else "operator"
    before, after, more = (
        format_count(figure, each) for each in (one.before, one.after, one.growth)
    )
    return f"{kind} {_code(one.name)}: {before} → {after} (**+{more}**)"


def _row(figure: Figure, one: Grown) -> str:
    before, after, more = (
        format_count(figure, each) for each in (one.before, one.after, one.growth)
    )
    return f"{one.name}: {before} -> {after} (+{more})"


def format_count(figure: Figure, count: int | None) -> str:
    """Format a count in the figure's unit."""
    if count is None:
        return "not known"
    return str(count) if figure.unit == "blocks" else format_bytes(count)


def _cell(figure: Figure) -> str:
    after = format_count(figure, figure.after)
    if figure.before == figure.after:
        return after
    text = f"{format_count(figure, figure.before)} → {after}{_percent(figure)}"
    return f"**{text}**" if figure.failed else text


def _percent(figure: Figure) -> str:
    if not figure.before or figure.after is None or figure.after == figure.before:
        return ""
    return f" ({(figure.after - figure.before) / figure.before:+.1%})"


def _code(name: str) -> str:
    """Format a name as Markdown code, so that markup in it has no effect."""
    return f"`{_one_line((name,)).replace('`', chr(39)).replace('|', chr(0x2502))}`"


def _escaped(text: str) -> str:
    return "".join(f"\\{one}" if one in "\\`*_<>[]|#" else one for one in _one_line((text,)))


def _one_line(parts: Iterable[str]) -> str:
    return " ".join(" ".join(parts).split())
