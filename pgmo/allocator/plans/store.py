"""Directory that `save=` writes plans and profiles to.

    gpt.pgmoplan             every plan of the program: the main one with the others inside
    gpt.pgmoprof             the profile of the main one
    gpt-2.pgmoprof ...       of the others
    gpt-opening.pgmoprof     of the first iteration

A plan that was loaded has no profile to write.
"""

import os
from dataclasses import replace
from pathlib import Path

from pgmo.allocator.plans.plan_set import PlannedProfile
from pgmo.errors import FileError
from pgmo.packing.plan import Plan
from pgmo.profiler.profile import Profile


def prepare_directory(folder: Path) -> None:
    """Makes the directory, so that it is found out before training when that cannot be.

    Raises:
        FileError: when there is something else in its place, or it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(
            f"save={str(folder)!r}: not a directory, and it cannot be made one "
            f"({error.strerror}); name another"
        ) from error


def save(
    plans: list[PlannedProfile], opening: PlannedProfile | None, folder: Path, name: str
) -> list[Path]:
    """Writes all plans of a program to one file, and to others the profiles that they have.

    Args:
        plans: of its structures, one at least; the first is the main one.
        opening: of its first iteration.
        folder: where to, a directory that exists.
        name: of the model; "" for "pgmo".

    Returns:
        The files that were written, the plan's last.

    Raises:
        FileError: when a file cannot be written.
    """
    stem = name or "pgmo"
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
    """The profile that a plan was made from, where it still lies beside the plan's file.

    Args:
        given: what the program named: a path, or a plan, which lies nowhere.
        plan: the plan that was read from it.
    """
    if not isinstance(given, str | os.PathLike):
        return None
    try:
        profile = Profile.load(Path(given).with_suffix(".pgmoprof"))
    except FileError:
        return None
    return profile if profile.fingerprint == plan.fingerprint else None


def _alone(plan: Plan) -> Plan:
    """A plan without those that came in the same file."""
    return replace(plan, opening=None, others=()) if plan.inner else plan
