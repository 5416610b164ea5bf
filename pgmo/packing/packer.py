"""The packers by name: C++ functions from a problem to offsets, all behind one interface."""

import numpy as np
from numpy.typing import NDArray

from pgmo import _core
from pgmo.errors import OptionError
from pgmo.packing.problem import Problem

PACKERS: tuple[str, ...] = tuple(_core.packers())
"""Names of the packers, in the order in which a portfolio tries them, fastest first.

- `best-fit`: on the lowest line of the skyline, the longest lifetime that fits it (Sekiyama et al.
  2018, arXiv 1804.10001, section 3.2), on a circle without a seam;
- `best-fit-area`, `-size`, `-start`: the same with the largest size times lifetime, the largest
  size, the earliest request;
- `first-fit-size`: by falling size, each block at the lowest offset free for all of its lifetime;
- `first-fit-lifetime`: the same by falling lifetime.
"""


def pack(problem: Problem, packer: str) -> NDArray[np.int64]:
    """Places every block of a problem with one packer; other threads run meanwhile.

    The arena it needs is the largest `offset + aligned size`. It depends on the blocks alone, not
    on how they are numbered.

    Args:
        problem: the blocks.
        packer: one of `PACKERS`.

    Returns:
        Offsets in bytes, shape (m,), multiples of the alignment.

    Raises:
        OptionError: when no packer has that name.

    Example:
        >>> pack(Problem([64, 32, 64], [0, 1, 2], [2, 3, 3]), "best-fit").tolist()
        [0, 64, 0]
    """
    if packer not in PACKERS:
        raise OptionError(f"no packer is called {packer!r}; choose one of {', '.join(PACKERS)}")
    offsets: NDArray[np.int64] = _core.pack(
        packer, problem.size, problem.lower, problem.upper, problem.period, problem.alignment
    )
    return offsets
