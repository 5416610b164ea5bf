"""Which process of a distributed program this is, as launchers say it in the environment."""

from pathlib import Path

from pgmo.world import world


def rank() -> int | None:
    """The number of this process; None where it is the only one, or nobody says so."""
    own = world()
    return None if own is None else own.rank


def of_rank(path: str) -> str:
    """A file's name, or its path, that no other process of the program uses.

    Example:
        >>> of_rank("run.json")
        'run.json'
    """
    own = rank()
    if own is None:
        return path
    return str(Path(path).with_name(f"{Path(path).stem}-rank{own}{Path(path).suffix}"))
