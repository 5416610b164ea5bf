"""Output of `pgmo stats --leaks`: blocks that accumulate over iterations."""

from pathlib import Path
from typing import TYPE_CHECKING

from pgmo.errors import OptionError

if TYPE_CHECKING:
    from pgmo.profiler.profile import Profile
    from pgmo.report.findings.leaks import Leaks


def show_leaks(path: Path, *, as_json: bool, every: int | None = None) -> bool:
    """Print the leaks of a recording, as text or JSON, and return whether there are any.

    Args:
        path: a recording.
        as_json: whether to print JSON.
        every: number of steps, or of requests, per iteration; None for the iterations in the file.
    """
    from pgmo.cli.source import read_profile
    from pgmo.cli.terminal.output import as_command, console, print_json, print_text, print_wrote
    from pgmo.report.findings.leaks import find_leaks
    from pgmo.report.findings.moment import find_moment
    from pgmo.report.summary import plain
    from pgmo.report.words import leak_lines

    profile = read_profile(path)
    if every is not None:
        profile = _with_iterations(path, profile, every)
    moment = find_moment(profile)
    leaks = find_leaks(profile)
    if as_json:
        print_json({"file": str(path), **plain(leaks), "growth": leaks.growth})
        return bool(leaks.found)
    lines = moment.lines() if moment is not None else []
    print_text(console(), "\n".join(lines + leak_lines(leaks)))
    if leaks.found:
        print_wrote([], as_command("pgmo stats", path, "--by", _best_grouping(leaks)))
    return bool(leaks.found)


def _with_iterations(path: Path, profile: "Profile", every: int) -> "Profile":
    from dataclasses import replace

    from pgmo.profiler.iterations.from_trace import marked_every

    if profile.trace is None or not profile.trace.has_history:
        raise OptionError(
            f"--every needs a recording of several iterations, and {path} has no history"
        )
    return replace(profile, trace=marked_every(profile.trace, every))


def _best_grouping(leaks: "Leaks") -> str:
    """Return the most specific grouping for which the first leak has a name."""
    tag = leaks.found[0].tag
    return next((by for by in ("file", "module", "op") if getattr(tag, by, "")), "size")
