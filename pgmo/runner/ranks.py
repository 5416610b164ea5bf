"""Rank of this process in a distributed program, from the environment of launchers."""

from pathlib import Path

from pgmo.world import world


def rank() -> int | None:
    """Return the rank of this process; None for a single process, or if it is unknown."""
    own = world()
    return None if own is None else own.rank


def of_rank(path: str) -> str:
    """Return a file name or path with the rank, so that no other rank uses it."""
    own = rank()
    if own is None:
        return path
    return str(Path(path).with_name(f"{Path(path).stem}-rank{own}{Path(path).suffix}"))
