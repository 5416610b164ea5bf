"""Packers: native functions that compute offsets for a problem, selected by name."""

import math

import numpy as np
from numpy.typing import NDArray

from pgmo import _core
from pgmo.errors import OptionError
from pgmo.packing.problem import Problem

PACKERS: tuple[str, ...] = tuple(_core.packers())
"""Names of the packers, in the order in which a portfolio tries them, fastest first.

- `best-fit`: finds the time span where the placed blocks are lowest, and puts the block with the
  longest lifetime that fits on them (Sekiyama et al. 2018, arXiv 1804.10001, section 3.2);
- `best-fit-area`, `-size`, `-start`: prefer the largest size times lifetime, the largest size, or
  the earliest request.
"""


def pack(problem: Problem, packer: str, time_limit: float = math.inf) -> NDArray[np.int64]:
    """Place every block of a problem with one packer. Releases the GIL.

    The result does not depend on the order of the blocks, unless the time limit ends the packer.

    Args:
        problem: the blocks.
        packer: one of `PACKERS`.
        time_limit: seconds. After that, the remaining blocks are stacked above the others, which
            wastes memory but is valid.

    Returns:
        Offsets in bytes, shape (m,), multiples of the alignment.

    Raises:
        OptionError: when no packer has that name.
        KeyboardInterrupt: when Ctrl-C ends the packer.

    Example:
        >>> pack(Problem([64, 32, 64], [0, 1, 2], [2, 3, 3]), "best-fit").tolist()
        [0, 64, 0]
    """
    offsets, interrupted = attempt(problem, packer, time_limit)
    if interrupted:
        raise KeyboardInterrupt
    return offsets


def attempt(problem: Problem, packer: str, time_limit: float) -> tuple[NDArray[np.int64], bool]:
    """Return offsets like `pack`, and whether Ctrl-C ended the packer early."""
    if packer not in PACKERS:
        raise OptionError(f"no packer is called {packer!r}; choose one of {', '.join(PACKERS)}")
    made: tuple[NDArray[np.int64], bool] = _core.pack(packer, *problem.native, time_limit)
    return made
