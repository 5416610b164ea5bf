"""Storage of plans and profiles in the directory that `save=` names.

    gpt.pgmoplan             every plan of the program: the main one with the others inside
    gpt.pgmoprof             profile of the main plan
    gpt-2.pgmoprof ...       profiles of the others
    gpt-opening.pgmoprof     profile of the first iteration

A loaded plan has no profile to write.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pgmo.allocator.plans.plan_set import PlannedProfile
from pgmo.errors import FileError
from pgmo.packing.plan import Plan
from pgmo.profiler.profile import Profile


def prepare_directory(folder: Path) -> None:
    """Make the directory before training, so that failure is reported early."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(
            f"save={str(folder)!r}: not a directory, and it cannot be made one "
            f"({error.strerror}); name another"
        ) from error


def save(
    plans: Sequence[PlannedProfile], opening: PlannedProfile | None, folder: Path, name: str
) -> list[Path]:
    """Write all plans of a program to one file, and each profile to its own file.

    Args:
        plans: plans of the program's structures, at least one; the first is the main one.
        opening: plan of the first iteration; None for none.
        folder: an existing directory.
        name: name of the model; "" for "pgmo".

    Returns:
        The written files; the plan's file is the last.
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
    """Return the plan's profile from the file next to the plan's file; None if there is none."""
    if not isinstance(given, str | os.PathLike):
        return None
    try:
        profile = Profile.load(Path(given).with_suffix(".pgmoprof"))
    except FileError:
        return None
    return profile if profile.fingerprint == plan.fingerprint else None


def _alone(plan: Plan) -> Plan:
    """Return a plan without the other plans of its file."""
    return replace(plan, opening=None, others=()) if plan.inner else plan
