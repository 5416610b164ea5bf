"""Reader of the commands' input files: profiles, plans, and recordings of other tools."""

from pathlib import Path
from typing import TYPE_CHECKING

from pgmo.cli.terminal.output import as_command
from pgmo.errors import FileError, OptionError
from pgmo.terminal import print_message

if TYPE_CHECKING:
    from pgmo.packing.plan import Plan
    from pgmo.profiler.importers.imported import Imported
    from pgmo.profiler.profile import Profile

_BEGINNING = 65536
"""Number of bytes at the beginning of a file that identify its kind."""


def read_profile_or_plan(path: Path, *, noted: bool = True) -> "Profile | Plan":
    """Read a plan, or any file that `read_profile` reads."""
    from pgmo.packing.plan import Plan

    return Plan.load(path) if path.suffix == ".pgmoplan" else read_profile(path, noted=noted)


def read_profile(path: Path, *, noted: bool = True) -> "Profile":
    """Read a profile, or make one from a memory snapshot, a log or a table of blocks.

    Suffix and content determine the kind of the file. With `noted`, a note on stderr names the
    iterations that were found in a recording of another tool.

    Raises:
        FileError: if the file is unreadable, a plan, without allocations, or of several devices.
    """
    from pgmo.profiler.importers.contents import contents
    from pgmo.profiler.profile import Profile

    if path.suffix == ".pgmoplan":
        raise FileError(
            f"{path} has the suffix of a plan, and plans have no origins of blocks: give the "
            "profile that the plan was made from"
        )
    if path.suffix == ".pgmoprof" or contents(path, _BEGINNING)[:2] == b"PK":
        return Profile.load(path)
    found = import_profiles(path)
    if len(found) > 1:
        devices = ", ".join(one.meta.device for one in found)
        raise FileError(
            f"{path} has recordings of {devices}: export a profile of each with "
            f"`{as_command('pgmo export', path, '--to', 'profile')}`"
        )
    (profile,) = found
    if noted and "iterations" in profile.meta.notes:
        print_message(f"Note: {path}: iterations: {profile.meta.notes['iterations']}")
    return profile


def is_table(path: Path) -> bool:
    """Return whether a file is a table of blocks.

    A table has the columns id, lower, upper and size, or is a CSV file that is no log.
    """
    from pgmo.profiler.importers import csv_blocks, cupy_log, rmm_log
    from pgmo.profiler.importers.contents import contents

    if path.suffix in (".pgmoprof", ".pgmoplan"):
        return False
    beginning = contents(path, _BEGINNING).decode("utf-8-sig", "replace")
    columns = {name.strip() for name in beginning.split("\n", 1)[0].split(",")}
    if cupy_log.has_cupy_lines(beginning) or columns.issuperset(rmm_log.NEEDED):
        return False
    return path.suffix.lower() == ".csv" or columns.issuperset(csv_blocks.NEEDED)


def import_profiles(
    path: Path, *, device: int | None = None, whole: bool = False, iteration: int | None = None
) -> "list[Profile]":
    """Make a profile of each device in a recording of another tool.

    Args:
        path: a memory snapshot, a log or a table.
        device: the only device to use; -1 is pinned memory of the host.
        whole: whether to use the whole recording, even if iterations repeat in it.
        iteration: the iteration to use. Number 0 begins at the first mark, number -1 precedes it.

    Raises:
        FileError: if the file is unreadable, or has no allocations.
        OptionError: if there is no such iteration, or `device` or `iteration` is given for a table.
    """
    from pgmo.profiler.importers.formats import read_file

    found = read_file(path, device)
    if device is not None and any(own.table is not None for own in found):
        raise OptionError(f"{path} is a table of blocks without devices; leave out --device")
    empty = [own for own in found if own.table is None and not len(own.trace.blocks)]
    if len(empty) == len(found):
        devices = ", ".join(own.device for own in empty)
        events = sum(len(own.trace) - own.trace.before for own in empty)
        raise FileError(
            f"{path} has no allocation in its {events} events on {devices}; begin to record "
            "before the work"
        )
    for own in empty:
        print_message(f"{own.device}: nothing was allocated there, so it has no profile")
    return [_profile(path, own, whole, iteration) for own in found if own not in empty]


def _profile(path: Path, own: "Imported", whole: bool, iteration: int | None) -> "Profile":
    from dataclasses import replace

    from pgmo.archive.fields import as_text
    from pgmo.profiler.iterations.from_trace import profile_of
    from pgmo.profiler.profile import ProfileMeta
    from pgmo.version import __version__

    meta = ProfileMeta(
        framework=own.framework,
        pgmo_version=__version__,
        device=own.device,
        notes={"source": as_text(path.name), **own.notes},
    )
    if own.table is not None:
        if iteration is not None:
            raise OptionError(
                f"{path} is a table of blocks without iterations; leave out --iteration"
            )
        return replace(own.table, meta=meta)
    return profile_of(own.trace, meta, whole=whole, iteration=iteration)
