"""Two profiles in one page: what has changed, by how much, and who it is.

The page has no script. It is what a report says of each, beside each other.
"""

import html
import os
import re
from collections.abc import Sequence
from pathlib import Path

from pgmo.files.replacement import replace_file
from pgmo.profiler.profile import Profile
from pgmo.report.blocks.origins import UNNAMED, By
from pgmo.report.findings.attribution import OTHERS, peak_tick
from pgmo.report.findings.comparison import Change, Comparison, compare
from pgmo.report.page.bundle import source_hash, style
from pgmo.report.page.curves import two_curves
from pgmo.report.page.glossary import words
from pgmo.report.page.icicle import icicles
from pgmo.report.page.sentence import module_in_words, place_of
from pgmo.units import format_bytes

_ROWS = 20
_TITLES: dict[By, str] = {
    "module": "module",
    "op": "operator",
    "phase": "phase",
    "file": "line of code",
}
_FIGURES = {
    "max_load": ("Max load", True),
    "requested": ("Requested in one iteration", True),
    "persistent": ("Persistent", True),
    "blocks": ("Blocks", False),
    "ticks": ("Requests", False),
}


def write_beside(
    before: Profile,
    after: Profile,
    path: str | os.PathLike[str],
    *,
    names: tuple[str, str] = ("before", "after"),
) -> Path:
    """Writes two profiles as one HTML page, for any browser, without a network.

    Args:
        before: what to compare with.
        after: what is asked about.
        path: the file to write; what is there is replaced.
        names: of the two.

    Returns:
        The path.

    Raises:
        FileError: when the file cannot be written.

    Example:
        >>> profile = Profile.from_columns(size=[64], start=[0], end=[1], ticks=1)
        >>> write_beside(profile, profile, "both.html")
        PosixPath('both.html')
    """
    target = Path(path)
    replace_file(target, beside(before, after, names).encode(errors="replace"))
    return target


def beside(before: Profile, after: Profile, names: tuple[str, str] = ("before", "after")) -> str:
    """The same page as text.

    Example:
        >>> profile = Profile.from_columns(size=[64], start=[0], end=[1], ticks=1)
        >>> beside(profile, profile).startswith("<!doctype html>")
        True
    """
    told = compare(before, after)
    first, second = (html.escape(name) for name in names)
    heads = [_breakable(name) for name in _short(names)]
    unrecorded = [
        f"{name}: {moment.sentences()}"
        for name, moment in zip(names, told.moments, strict=True)
        if moment is not None
    ]
    headline = " ".join(unrecorded) or verdict(told, after)
    looks = style()
    policy = (
        f"default-src 'none'; style-src {source_hash(looks)}; base-uri 'none'; form-action 'none'"
    )
    parts = [
        f'<section class="headline" aria-label="Verdict"><p>{html.escape(headline)}</p></section>',
        _figures(told, *heads),
        "" if unrecorded else _curves(before, after, first, second),
        '<div class="pair">'
        + "".join(
            _changes(
                told.peaks.get(by, ()),
                f"{'Alive' if unrecorded else 'At the peak'}, by {title}",
                (title, *heads, "change"),
            )
            for by, title in _TITLES.items()
        )
        + "</div>",
        _origins("Origins that are new", told.new, second),
        _origins("Origins that are gone", told.gone, first),
        icicles(before, f"Who holds the peak of {names[0]}", "before"),
        icicles(after, f"Who holds the peak of {names[1]}", "after"),
        words(),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{second} against {first} · pgmo report</title>\n<style>{looks}</style>\n</head>\n"
        f'<body>\n<header class="top"><div class="name"><h1>{second}</h1>'
        f"<p>against {first}</p></div></header>\n"
        + "\n".join(filter(None, parts))
        + "\n</body>\n</html>\n"
    )


def verdict(told: Comparison, after: Profile) -> str:
    """What has changed, in a sentence.

    Args:
        told: the comparison.
        after: the second profile.

    Example:
        >>> small = Profile.from_columns(size=[40], start=[0], end=[1], ticks=1)
        >>> large = Profile.from_columns(size=[50], start=[0], end=[1], ticks=1)
        >>> verdict(compare(small, large), large)
        '25 % more at the peak (50 B instead of 40 B); the peak is at request 1 of 1.'
    """
    old, new = told.before.max_load or 0, told.after.max_load or 0
    where = (
        f"the peak is {place_of(after, peak_tick(after))}" if len(after) else "no blocks are left"
    )
    if old == new:
        same = "The same requests" if told.same else "Other requests"
        return f"{same}, and as much at the peak ({format_bytes(new)}); {where}."
    sizes = f"{format_bytes(new)} instead of {format_bytes(old)}"
    kind = "more" if new > old else "less"
    if not old:
        return f"{format_bytes(new)} at the peak, where there was nothing before; {where}."
    share = f"{abs(new - old) / old:.1%}".replace(".0%", "%").replace("%", " %")
    grown = _largest(told, new > old)
    return f"{share} {kind} at the peak ({sizes}){grown}; {where}."


def _largest(told: Comparison, more: bool) -> str:
    """The origin with the largest change in a direction, where one has a name."""
    for by in _TITLES:
        named = [
            one
            for one in told.peaks.get(by, ())
            if one.name not in (*UNNAMED, OTHERS) and (one.growth > 0) == more
        ]
        if named:
            name = module_in_words(named[0].name) if by == "module" else named[0].name
            return f", the largest change in {name} ({_signed(named[0].growth)})"
    return ""


def _signed(size: int) -> str:
    return f"{'+' if size > 0 else '-' if size < 0 else ''}{format_bytes(abs(size))}"


def _figures(told: Comparison, first: str, second: str) -> str:
    rows = []
    for name, (title, in_bytes) in _FIGURES.items():
        old, new = getattr(told.before, name), getattr(told.after, name)
        shown = [_figure(one, in_bytes) for one in (old, new)]
        if old is None or new is None:
            rows.append((title, *shown, ""))
            continue
        change = _signed(new - old) if in_bytes else f"{new - old:+,}"
        share = f" ({(new - old) / old:+.1%})" if old and new != old else ""
        rows.append((title, *shown, "same" if new == old else change + share))
    return _table("Figures", ("", first, second, "change"), rows)


def _figure(value: int | None, in_bytes: bool) -> str:
    if value is None:
        return "not known"
    return format_bytes(value) if in_bytes else f"{value:,}"


def _curves(before: Profile, after: Profile, first: str, second: str) -> str:
    return (
        '<section class="static"><h2>Live bytes over one iteration</h2><p class="quiet-text">'
        f"dashed: {first}, solid: {second}; each from its first request to its last</p>"
        f"{two_curves(before, after)}</section>"
    )


def _short(names: tuple[str, str]) -> tuple[str, str]:
    """Return the ends of two paths that tell them apart; the whole names stand in the heading."""
    parts = [name.replace("\\", "/").removesuffix(".pgmoprof").split("/") for name in names]
    for count in range(1, max(map(len, parts))):
        first, second = ("/".join(own[-count:]) for own in parts)
        if first != second:
            return first, second
    return names


def _breakable(name: str) -> str:
    """Return a name as HTML whose lines may break after its parts."""
    return re.sub(r"([/_.-])", r"\1<wbr>", html.escape(name))


def _changes(changes: Sequence[Change], heading: str, head: Sequence[str]) -> str:
    if not changes:
        return ""
    rows = [
        (one.name, format_bytes(one.before), format_bytes(one.after), _signed(one.growth))
        for one in changes[:_ROWS]
    ]
    rest = changes[_ROWS:]
    if rest:
        old, new = sum(one.before for one in rest), sum(one.after for one in rest)
        rows.append(
            (f"{len(rest)} others", format_bytes(old), format_bytes(new), _signed(new - old))
        )
    return _table(heading, head, rows)


def _origins(title: str, changes: Sequence[Change], where: str) -> str:
    if not changes:
        return ""
    rows = [(one.name, _signed(one.growth)) for one in changes[:_ROWS]]
    rest = changes[_ROWS:]
    if rest:
        rows.append((f"{len(rest)} others", _signed(sum(one.growth for one in rest))))
    return _table(f"{title} ({where})", ("origin", "bytes per iteration"), rows)


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; its titles are HTML, its cells text. All columns but the first are numbers."""
    cells = "".join(
        f"<tr><th scope='row'>{html.escape(row[0])}</th>"
        + "".join(f"<td class='number'>{html.escape(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    columns = f"<th>{head[0]}</th>" + "".join(f"<th class='number'>{one}</th>" for one in head[1:])
    return (
        f'<section class="static"><h2>{title}</h2><table class="columns">'
        f"<thead><tr>{columns}</tr></thead><tbody>{cells}</tbody></table></section>"
    )
