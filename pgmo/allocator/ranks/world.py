"""Which of several processes this is.

Launchers (torchrun, and whatever sets its variables) say it in the environment, before torch is
imported; the process group says it better once there is one, a fake one included. Nothing here
imports torch: where the program has not, there is no process group.
"""

import os
import sys
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class World:
    """One process among several.

    Args:
        rank: its number, from 0 on.
        size: how many there are, at least two.

    Example:
        >>> World(rank=1, size=4).place
        0.3333333333333333
    """

    rank: int
    size: int

    @property
    def place(self) -> float:
        """Between the first rank (0) and the last one (1): stages of a pipeline keep theirs."""
        return self.rank / max(1, self.size - 1)


def world() -> World | None:
    """This process among the others; None where it is the only one, or nobody says so.

    Example:
        >>> world() is None
        True
    """
    group = process_group()
    if group is not None:
        rank, size = int(group.get_rank()), int(group.get_world_size())
        return World(rank, size) if size > 1 and rank >= 0 else None
    number, count = (os.environ.get(name, "") for name in ("RANK", "WORLD_SIZE"))
    if not (number.isdecimal() and count.isdecimal()) or int(count) < 2:
        return None
    return World(int(number), int(count)) if int(number) < int(count) else None


def process_group() -> Any:
    """`torch.distributed`, if the program has initialized its default process group; else None.

    Example:
        >>> process_group() is None
        True
    """
    module: Any = sys.modules.get("torch.distributed")
    if module is None or not module.is_available() or not module.is_initialized():
        return None
    return module
