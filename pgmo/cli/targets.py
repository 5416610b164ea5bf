"""Checks of a command's numbers and output files."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from pgmo.errors import FileError, OptionError

OURS = (".pgmoprof", ".pgmoplan")
"""Suffixes by which commands recognise pgmo's files. Other files must not have them."""


def check_number(option: str, value: float, least: float, most: float | None = None) -> None:
    """Check that a number lies in a range; raise `OptionError` if not."""
    if not (value >= least and (most is None or value <= most)):  # also rejects nan
        limit = f"at least {least}" if most is None else f"from {least} to {most}"
        raise OptionError(f"{option} must be {limit}, not {value}")


def check_targets(
    targets: Sequence[str | Path], *, force: bool, sources: Iterable[str | Path] = ()
) -> None:
    """Check that output files can be written, differ from each other, and are not input files.

    Args:
        targets: the files to write.
        force: whether existing files may be replaced. Input files are never replaced.
        sources: the files that the command reads.

    Raises:
        OptionError: if a target is the same file as a source or another target, even under another
            name.
        FileError: if a target is not a regular file or has no folder, or if it exists and `force`
            is not set.
    """
    sources = list(sources)
    for number, target in enumerate(targets):
        for source in sources:
            if _same(target, source):
                raise OptionError(
                    f"{target}: this would replace the input {source}; choose another name"
                )
        if any(_same(target, other) for other in targets[:number]):
            raise OptionError(f"{target}: another output is the same file; choose another name")
    for target in targets:
        if os.path.isdir(target):
            raise FileError(f"{target} is a folder; name a file in it")
        if os.path.exists(target) and not os.path.isfile(target):
            raise FileError(f"{target} is not a regular file, so it is not replaced; name another")
        folder = Path(target).parent
        if not os.path.isdir(folder):
            raise FileError(f"{target}: there is no folder {folder}; create it first")
    # Unlike Path.exists, this does not raise for a name that is too long. Writing raises the error.
    existing = [] if force else [target for target in targets if os.path.exists(target)]
    if existing:
        more = f" (and {len(existing) - 1} more)" if len(existing) > 1 else ""
        raise FileError(
            f"{existing[0]} exists already{more}; pass --force to overwrite, or name another file"
        )


def next_to(source: str | Path, ending: str) -> Path:
    """Return a path next to `source` with another suffix; raise FileError without a file name."""
    path = Path(source)
    if not path.name:
        raise FileError(f"{os.fspath(source)!r} names no file; check the path")
    return path.with_suffix(ending)


def check_suffix(target: str | Path, *suffixes: str) -> None:
    """Raise OptionError if a file has none of the suffixes by which other commands recognise it."""
    if Path(target).suffix in suffixes:
        return
    if len(suffixes) == 1:
        raise OptionError(f"{target}: the suffix is not {suffixes[0]}; add it")
    raise OptionError(f"{target}: the suffix is neither {' nor '.join(suffixes)}; add one of them")


def refuse_our_suffix(target: str | Path, what: str, usual: str) -> None:
    """Raise OptionError if a file of another kind has the suffix of a profile or a plan."""
    suffix = Path(target).suffix
    if suffix in OURS:
        raise OptionError(f"{target}: {what} cannot have the suffix {suffix}; use {usual}")


def _same(one: str | Path, other: str | Path) -> bool:
    """Return whether two paths are the same file, including hard and symbolic links."""
    try:
        return os.path.realpath(one) == os.path.realpath(other) or os.path.samefile(one, other)
    except (OSError, ValueError):  # one of them does not exist, or its name is invalid
        return False
