"""Comparison of one program, or of all programs in a folder, with their earlier states."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pgmo.errors import FileError
from pgmo.packing.plan import Plan
from pgmo.profiler.profile import Profile
from pgmo.report.gate.growth import Growth, find_growth
from pgmo.report.gate.tolerance import Tolerance

_KINDS = (".pgmoprof", ".pgmoplan")


@dataclass(frozen=True)
class Gate:
    """Result of a comparison.

    Args:
        programs: growth of each program that has both states, sorted by name.
        new: names of programs without an earlier state.
        gone: names of programs that have only an earlier state.
        tolerance: allowed growth.
    """

    programs: tuple[Growth, ...]
    new: tuple[str, ...]
    gone: tuple[str, ...]
    tolerance: Tolerance

    @property
    def passed(self) -> bool:
        """Return whether no figure has grown beyond the tolerance, and no program is missing."""
        return not self.gone and not any(program.failed for program in self.programs)


def compare_states(new: Path, base: Path, tolerance: Tolerance) -> Gate:
    """Compare two files, or the .pgmoprof and .pgmoplan files of equal names in two folders.

    Raises:
        FileError: if only one path is a folder, a file cannot be read or is of another kind, or
            both folders have no such files.
    """
    if new.is_dir() != base.is_dir():
        folder, file = (new, base) if new.is_dir() else (base, new)
        raise FileError(f"{folder} is a folder and {file} is not; give two files, or two folders")
    if not new.is_dir():
        growth = find_growth(new.stem, _read(base), _read(new), tolerance)
        return Gate((growth,), (), (), tolerance)
    after, before = _files(new), _files(base)
    if not after and not before:
        raise FileError(f"neither {new} nor {base} has a file that ends with {' or '.join(_KINDS)}")
    programs = [
        find_growth(name, _read(before[name]), _read(after[name]), tolerance)
        for name in sorted(after.keys() & before.keys())
    ]
    return Gate(
        tuple(programs),
        new=tuple(sorted(after.keys() - before.keys())),
        gone=tuple(sorted(before.keys() - after.keys())),
        tolerance=tolerance,
    )


def _files(folder: Path) -> Mapping[str, Path]:
    """Return files by relative path without suffix. A profile takes precedence over a plan."""
    found: dict[str, Path] = {}
    for kind in reversed(_KINDS):
        for path in folder.rglob(f"*{kind}"):
            found[str(path.relative_to(folder).with_suffix(""))] = path
    return found


def _read(path: Path) -> Profile | Plan:
    if path.suffix not in _KINDS:
        raise FileError(f"{path}: give a file that ends with {' or '.join(_KINDS)}")
    return Plan.load(path) if path.suffix == ".pgmoplan" else Profile.load(path)
