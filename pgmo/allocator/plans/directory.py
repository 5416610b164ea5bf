"""Files of plans and profiles in the directory that `save=` names.

    gpt.pgmoplan             every plan of the program: the main plan with the other plans inside
    gpt.pgmoprof             profile of the main plan
    gpt-2.pgmoprof ...       profiles of the other plans
    gpt-opening.pgmoprof     profile of the first iteration

All ranks of a job share one directory:

    gpt-3fa2b1c0.pgmoplan    a plan, named by a digest of its contents
    gpt-rank3-of-8.txt       the name of the plan that rank 3 of 8 saved last

Ranks with equal plans share one file. Ranks need no lock: files are replaced atomically, and no
rank writes another rank's `.txt`.
"""

import glob
import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pgmo.allocator.plans.plan_set import PlannedProfile, check_replayable
from pgmo.errors import FileError, PlanError
from pgmo.files.replacement import replace_file
from pgmo.packing.plan import Plan
from pgmo.profiler.profile import Profile
from pgmo.world import World

_DIGITS = 8  # digits of a digest in file names
_LONGEST_NAME = 1024  # bytes to read from a file that names a plan
_COLUMNS = ("size", "end", "stream", "varying", "shared", "offset", "alternate", "shorter")


@dataclass(frozen=True)
class PlanDirectory:
    """Plans of one program in a folder; `world` is None for a single process."""

    folder: Path
    name: str
    world: World | None

    def own(self, alignment: int) -> tuple[Path, Plan] | None:
        """Return the path and plan that this rank saved last; None if there is none to replay."""
        path = self._single if self.world is None else self._named_by(self._pointer)
        return None if path is None else _load(path, alignment)

    def all(self, alignment: int) -> Iterator[tuple[Path, Plan]]:
        """Yield the path and plan of each file with a plan that can be replayed."""
        digits = _DIGITS * "[0-9a-f]"
        paths = self.folder.glob(f"{glob.escape(self._stem)}-{digits}.pgmoplan")
        for path in (*sorted(paths), self._single):
            loaded = _load(path, alignment)
            if loaded is not None:
                yield loaded

    def save(self, plans: Sequence[PlannedProfile], opening: PlannedProfile | None) -> list[Path]:
        """Write all plans to one file and each profile to its own file, or raise `FileError`.

        A rank writes plans only if no rank has saved equal plans. The rank removes the files of its
        earlier plan, unless a rank's `.txt` names that plan. If another rank saves the same
        earlier plan at this moment, the plan's file may be lost. Then the next run of that rank
        starts without its own plan.

        Args:
            plans: plans of the program's structures, the main plan first.
            opening: plan of the first iteration, or None.

        Returns:
            The paths of the profiles and of the plan file.
        """
        if self.world is None:
            return _write(plans, opening, self.folder, self._stem)
        first = None if opening is None else opening.plan
        stem = f"{self._stem}-{digest([one.plan for one in plans], first)}"
        path = self.folder / f"{stem}.pgmoplan"
        before = self._named_by(self._pointer)
        # The pointer is written first, because other ranks remove no plan that a pointer names.
        replace_file(self._pointer, f"{path.name}\n".encode())
        if not path.exists():
            _write(plans, opening, self.folder, stem)
        if before is not None and before not in self._named_by_ranks():
            for file in (before, *_profiles(before)):
                with suppress(OSError):
                    os.unlink(file)
        return [*_profiles(path), path]

    @property
    def _stem(self) -> str:
        return self.name or "pgmo"

    @property
    def _single(self) -> Path:
        """Path of the plan that a program of one process saves."""
        return self.folder / f"{self._stem}.pgmoplan"

    @property
    def _pointer(self) -> Path:
        """Path of the file that names this rank's plan."""
        assert self.world is not None
        return self.folder / f"{self._stem}-rank{self.world.rank}-of-{self.world.size}.txt"

    def _named_by(self, pointer: Path) -> Path | None:
        """Return the path of the plan that a pointer file names; None if it names none."""
        try:
            with open(pointer, "rb") as file:
                name = file.read(_LONGEST_NAME).decode(errors="replace").rstrip("\n")
        except OSError:
            return None
        pattern = rf"{re.escape(self._stem)}-[0-9a-f]{{{_DIGITS}}}\.pgmoplan"
        return self.folder / name if re.fullmatch(pattern, name) else None

    def _named_by_ranks(self) -> set[Path | None]:
        """Return the paths of plans that a pointer of any rank names; None for a bad pointer."""
        pointers = self.folder.glob(f"{glob.escape(self._stem)}-rank*-of-*.txt")
        return {self._named_by(pointer) for pointer in pointers}


def digest(plans: Sequence[Plan], opening: Plan | None) -> str:
    """Return a short digest of the requests, lifetimes and offsets of plans."""
    made = hashlib.sha256(str(len(plans)).encode())
    for one in (*plans, *(() if opening is None else (opening,))):
        made.update(f" {len(one)} {one.ticks} {one.alignment} ".encode())
        for name in _COLUMNS:
            made.update(getattr(one, name).tobytes())
    return made.hexdigest()[:_DIGITS]


def _load(path: Path, alignment: int) -> tuple[Path, Plan] | None:
    """Return a plan and its path; None if the plan cannot be read or replayed."""
    try:
        plan = Plan.load(path)
        for one in (plan, *plan.others):
            check_replayable(one, alignment)
    except (FileError, PlanError):
        return None
    return path, plan


def _profiles(plan: Path) -> list[Path]:
    return sorted(plan.parent.glob(f"{glob.escape(plan.stem)}*.pgmoprof"))


def prepare_directory(folder: Path) -> None:
    """Create the directory of `save=` before training; raise `FileError` if that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(
            f"save={str(folder)!r}: not a directory, and it cannot be made one "
            f"({error.strerror}); name another directory"
        ) from error


def _write(
    plans: Sequence[PlannedProfile], opening: PlannedProfile | None, folder: Path, stem: str
) -> list[Path]:
    main, *others = (_alone(planned.plan) for planned in plans)
    first = None if opening is None else _alone(opening.plan)
    by_name = {stem if n == 1 else f"{stem}-{n}": planned for n, planned in enumerate(plans, 1)}
    if opening is not None:
        by_name[f"{stem}-opening"] = opening
    written = []
    for own, planned in by_name.items():
        if planned.profile is not None:
            written.append(folder / f"{own}.pgmoprof")
            planned.profile.save(written[-1])
    written.append(folder / f"{stem}.pgmoplan")
    replace(main, others=tuple(others), opening=first).save(written[-1])
    return written


def find_profile(given: object, plan: Plan) -> Profile | None:
    """Return the profile next to a plan's file; None if it is missing or of another plan."""
    if not isinstance(given, str | os.PathLike):
        return None
    try:
        profile = Profile.load(Path(given).with_suffix(".pgmoprof"))
    except FileError:
        return None
    return profile if profile.fingerprint == plan.fingerprint else None


def _alone(plan: Plan) -> Plan:
    """Return a copy of a plan without the other plans of its file."""
    return replace(plan, opening=None, others=()) if plan.inner else plan
