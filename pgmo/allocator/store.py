"""Where `save=` puts plans and profiles."""

from pathlib import Path

from pgmo.allocator.plan_set import Planned
from pgmo.errors import FileError


def prepare_directory(folder: Path) -> None:
    """Makes the directory, so that it is found out before training when that cannot be.

    Raises:
        FileError: when there is something else in its place, or it cannot be made.

    Example:
        >>> prepare_directory(Path("."))
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(
            f"save={str(folder)!r}: not a directory, and it cannot be made one "
            f"({error.strerror}); name another"
        ) from error


def save(planned: Planned, folder: Path, name: str, number: int) -> list[Path]:
    """Writes a plan and, where there is one, its profile; the first plan has the plain name.

    Raises:
        FileError: when a file cannot be written.

    Example:
        >>> save(planned, Path("plans"), "resnet", number=0)  # doctest: +SKIP
        [PosixPath('plans/resnet.pgmoprof'), PosixPath('plans/resnet.pgmoplan')]
    """
    stem = (name or "pgmo") + (f"-{number + 1}" if number else "")
    plan = folder / f"{stem}.pgmoplan"
    planned.plan.save(plan)
    if planned.profile is None:
        return [plan]
    profile = folder / f"{stem}.pgmoprof"
    planned.profile.save(profile)
    return [profile, plan]
