"""The directory of plans that all ranks of a program share.

    plans/gpt-3fa2b1c0.pgmoplan      a plan, named by a digest of what is in it
    plans/gpt-3fa2b1c0.pgmoprof      its profile
    plans/gpt-rank3-of-8.txt         the name of the plan that rank 3 of 8 saved last

Ranks whose plans are equal write one file. Each file is replaced in one step and no rank writes
another one's `.txt`, so ranks need no lock.
"""

import glob
import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pgmo.allocator.plans import store
from pgmo.allocator.plans.plan_set import PlannedProfile, check_replayable
from pgmo.errors import FileError, PlanError
from pgmo.files.replacement import replace_file
from pgmo.packing.plan import Plan
from pgmo.world import World

_DIGITS = 8  # of a digest, in file names
_LONGEST_NAME = 1024  # bytes that are read of a file that names a plan
_COLUMNS = ("size", "end", "stream", "varying", "shared", "offset", "alternate", "shorter")


@dataclass(frozen=True)
class PlanDirectory:
    """The plans of one program.

    Args:
        folder: where they are.
        name: of the program; "" for "pgmo".
        world: this process among its others; None for one alone.
    """

    folder: Path
    name: str
    world: World | None

    def own(self, alignment: int) -> tuple[Path, Plan] | None:
        """Return the plan that this rank saved last, if it can be replayed.

        Args:
            alignment: of the framework's blocks, in bytes.
        """
        path = self._single if self.world is None else self._named_by(self._pointer)
        return None if path is None else _load(path, alignment)

    def all(self, alignment: int) -> Iterator[tuple[Path, Plan]]:
        """Yield all plans that can be replayed, in the order of their names.

        Args:
            alignment: of the framework's blocks, in bytes.
        """
        digits = _DIGITS * "[0-9a-f]"
        paths = self.folder.glob(f"{glob.escape(self._stem)}-{digits}.pgmoplan")
        for path in (*sorted(paths), self._single):
            loaded = _load(path, alignment)
            if loaded is not None:
                yield loaded

    def save(self, plans: Sequence[PlannedProfile], opening: PlannedProfile | None) -> list[Path]:
        """Writes plans and profiles, unless a rank with the same plans has done so.

        The files of this rank's earlier plan are removed, unless another rank has that plan, too.
        A rank that saves that very plan at the same moment may lose it. It finds the plan missing
        at the next start, and does as a rank without one.

        Args:
            plans: of the program's structures, the main one first.
            opening: of its first iteration.

        Returns:
            The files, the plan's last.

        Raises:
            FileError: when a file cannot be written.
        """
        first = None if opening is None else opening.plan
        stem = f"{self._stem}-{digest([one.plan for one in plans], first)}"
        path = self.folder / f"{stem}.pgmoplan"
        before = self._named_by(self._pointer)
        # The name comes first: a rank that reads it does not remove the plan.
        replace_file(self._pointer, f"{path.name}\n".encode())
        if not path.exists():
            store.save(list(plans), opening, self.folder, stem)
        if before is not None and before not in self._named_by_ranks():
            for file in (before, *_profiles(before)):
                with suppress(OSError):
                    os.unlink(file)
        return [*_profiles(path), path]

    @property
    def _stem(self) -> str:
        """The beginning of all file names."""
        return self.name or "pgmo"

    @property
    def _single(self) -> Path:
        """The plan that a program of one process saves."""
        return self.folder / f"{self._stem}.pgmoplan"

    @property
    def _pointer(self) -> Path:
        """The file that names this rank's plan."""
        assert self.world is not None
        return self.folder / f"{self._stem}-rank{self.world.rank}-of-{self.world.size}.txt"

    def _named_by(self, pointer: Path) -> Path | None:
        """Return the path of the plan that such a file names; None where it names none."""
        try:
            with open(pointer, "rb") as file:
                name = file.read(_LONGEST_NAME).decode(errors="replace").rstrip("\n")
        except OSError:
            return None
        pattern = rf"{re.escape(self._stem)}-[0-9a-f]{{{_DIGITS}}}\.pgmoplan"
        return self.folder / name if re.fullmatch(pattern, name) else None

    def _named_by_ranks(self) -> set[Path | None]:
        """Return the plans that any rank of any world has."""
        pointers = self.folder.glob(f"{glob.escape(self._stem)}-rank*-of-*.txt")
        return {self._named_by(pointer) for pointer in pointers}


def digest(plans: Sequence[Plan], opening: Plan | None) -> str:
    """Return a short name for the contents of plans, whoever made them and when.

    Example:
        >>> from dataclasses import replace
        >>> from pgmo.packing.planner import plan
        >>> from pgmo.profiler.profile import Profile
        >>> one = plan(Profile.from_columns(size=[64], start=[0], end=[1], ticks=1))
        >>> digest([one], None) == digest([replace(one, seconds=3.0)], None)
        True
    """
    made = hashlib.sha256(str(len(plans)).encode())
    for one in (*plans, *(() if opening is None else (opening,))):
        made.update(f" {len(one)} {one.ticks} {one.alignment} ".encode())
        for name in _COLUMNS:
            made.update(getattr(one, name).tobytes())
    return made.hexdigest()[:_DIGITS]


def _load(path: Path, alignment: int) -> tuple[Path, Plan] | None:
    """Return a plan and its path; None where it cannot be read or replayed."""
    try:
        plan = Plan.load(path)
        for one in (plan, *plan.others):
            check_replayable(one, alignment)
    except (FileError, PlanError):
        return None
    return path, plan


def _profiles(plan: Path) -> list[Path]:
    """Return the profiles of a plan's structures and of its first iteration."""
    return sorted(plan.parent.glob(f"{glob.escape(plan.stem)}*.pgmoprof"))
