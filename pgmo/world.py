"""Rank and number of processes of a distributed job.

Launchers such as torchrun set both numbers in the environment before torch is imported. A process
group, even a fake group, takes precedence, and exists only if the program has imported torch.
"""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class World:
    """Rank of a process, from 0, and the number of processes of its job, at least 2."""

    rank: int
    size: int


def world() -> World | None:
    """Return this process's rank and the job's size; None for one process or if unknown."""
    module: Any = sys.modules.get("torch.distributed")
    if module is not None and module.is_available() and module.is_initialized():
        rank, size = int(module.get_rank()), int(module.get_world_size())
        return World(rank, size) if size > 1 and rank >= 0 else None
    number, count = (os.environ.get(name, "") for name in ("RANK", "WORLD_SIZE"))
    if not (number.isdecimal() and count.isdecimal()) or int(count) < 2:
        return None
    return World(int(number), int(count)) if int(number) < int(count) else None


def rank() -> int | None:
    """Return the rank of this process; None for a job of one process or if unknown."""
    own = world()
    return None if own is None else own.rank


def of_rank(path: str) -> str:
    """Return a path with the rank in its stem; without a rank, return the path itself."""
    own = rank()
    return path if own is None else str(Path(path).with_stem(f"{Path(path).stem}-rank{own}"))
