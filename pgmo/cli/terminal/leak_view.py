"""Blocks that accumulate over iterations: `pgmo stats --leaks`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pgmo.report.findings.leaks import Leaks


def show_leaks(files: Sequence[str], memory: int | None, *, as_json: bool) -> bool:
    """Print what leaks in one recording, or grows from each profile to the next.

    Args:
        files: profiles of one program, the oldest first.
        memory: bytes of the device, to say how long it lasts; None if not known.
        as_json: print one object, no text.

    Returns:
        Whether anything leaks.

    Raises:
        FileError: when a file cannot be read.
    """
    from pgmo.cli.source import read_profile
    from pgmo.cli.terminal.output import as_command, console, print_json, print_text, print_wrote
    from pgmo.report.findings.leaks import compare_leaks, find_leaks
    from pgmo.report.findings.moment import find_moment
    from pgmo.report.summary import plain
    from pgmo.report.words import leak_lines

    profiles = [read_profile(Path(file)) for file in files]
    moment = find_moment(profiles[0]) if len(profiles) == 1 else None
    leaks = find_leaks(profiles[0]) if len(profiles) == 1 else compare_leaks(profiles)
    if as_json:
        fields = {"files": list(files), **plain(leaks), "growth": leaks.growth}
        if memory is not None:
            fields |= {"memory": memory, "until_full": leaks.until_full(memory)}
        print_json(fields)
        return bool(leaks.found)
    lines = moment.lines() if moment is not None else []
    print_text(console(), "\n".join(lines + leak_lines(leaks, memory)))
    if leaks.found:
        print_wrote([], as_command("pgmo stats", files[-1], "--by", _best_grouping(leaks)))
    return bool(leaks.found)


def _best_grouping(leaks: "Leaks") -> str:
    """The most telling way of grouping that the first leak has a name for."""
    tag = leaks.found[0].tag
    return next((by for by in ("file", "module", "op") if getattr(tag, by, "")), "size")
