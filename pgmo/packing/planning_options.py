"""Options of planning, with their defaults and checks."""

import os
from dataclasses import dataclass, replace
from typing import TypedDict

import numpy as np

from pgmo import removed
from pgmo.errors import OptionError
from pgmo.packing.solving import cp_sat
from pgmo.packing.solving.improver import IMPROVERS
from pgmo.packing.solving.packer import PACKERS
from pgmo.packing.solving.stages import EFFORTS
from pgmo.units import parse_bytes

SOLVERS: tuple[str, ...] = ("auto", *PACKERS, *IMPROVERS)
"""Values of `solver`: "auto", a packer, or a solver that improves the result of the packers."""

_NUMBERS = (int, float, np.integer, np.floating)


class PlanningFields(TypedDict, total=False):
    """Keywords of `pgmo.plan`, for type checkers; `pgmo.plan` documents them."""

    solver: str
    time_limit: float
    effort: str
    threads: int | None
    seed: int
    alignment: int | None
    budget: str | int | None


@dataclass(frozen=True)
class PlanningOptions:
    """Checked options of `pgmo.plan`, which documents them.

    Raises:
        OptionError: when a value is invalid, or OR-Tools is needed and missing.
    """

    solver: str = "auto"
    time_limit: float = 5.0
    effort: str = "balanced"
    threads: int | None = None
    seed: int = 0
    alignment: int | None = None
    budget: str | int | None = None
    sparse_from: int = 0
    """Minimum bytes of the blocks that are packed above all smaller blocks of their stream; 0 for
    no such blocks. Programs often touch only a part of a large block. The untouched part takes no
    physical memory if no smaller block uses the same addresses."""

    def __post_init__(self) -> None:
        if self.solver not in SOLVERS:
            was = "; it was removed" if self.solver in removed.SOLVERS else ""
            raise OptionError(
                f"no solver is called {self.solver!r}{was}; choose one of {', '.join(SOLVERS)}"
            )
        if self.solver == "cp-sat":
            cp_sat.require()
        if self.effort not in EFFORTS:
            raise OptionError(f"effort={self.effort!r} is not one of {', '.join(EFFORTS)}")
        limit = self.time_limit
        if isinstance(limit, bool) or not isinstance(limit, _NUMBERS):
            raise OptionError(f"time_limit={limit!r} is not a number; give seconds")
        if not limit >= 0:  # Also rejects NaN.
            raise OptionError(f"time_limit={limit} is not possible; give 0 seconds or more")
        if self.threads is not None:
            _check_whole("threads", self.threads, 1, 4096)
        _check_whole("seed", self.seed, 0, 2**63 - 1)
        if self.budget is not None:
            parse_bytes(self.budget)

    @property
    def thread_count(self) -> int:
        """Maximum number of threads for solvers."""
        return len(os.sched_getaffinity(0)) if self.threads is None else int(self.threads)

    @property
    def budget_bytes(self) -> int | None:
        """Bytes of device memory that plans may use; None for no limit."""
        return None if self.budget is None else parse_bytes(self.budget)

    def quick(self) -> "PlanningOptions":
        """Return options for a quick plan: packers run, but no solvers after them."""
        if self.solver in PACKERS:
            return self
        return replace(self, solver="auto", effort="fast")


def _check_whole(name: str, value: object, low: int, high: int) -> None:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or not low <= int(value) <= high:  # type: ignore[call-overload]
        raise OptionError(f"{name}={value!r} must be a whole number from {low} to {high}")
