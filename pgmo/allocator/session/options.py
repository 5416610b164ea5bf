"""What `pgmo.optimize` can be told."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pgmo.allocator.adapters.frameworks import check_framework, check_managed
from pgmo.errors import OptionError

# What is only needed for options that are given is imported then: `pgmo run` checks its own before
# it runs a script.
if TYPE_CHECKING:
    from pgmo.packing.plan import Plan
    from pgmo.packing.planning_options import PlanningOptions
    from pgmo.profiler.profile import Profile

MEMORIES = ("device", "managed")


@dataclass(frozen=True, eq=False)
class Options:
    """Checked options of a session; the meaning of each is told at `pgmo.optimize`.

    Raises:
        OptionError: when a value cannot be used.

    Example:
        >>> Options(min_hit_rate=0.5).min_hit_rate
        0.5
    """

    plan: "Plan | str | os.PathLike[str] | None" = None
    profile: "Profile | str | os.PathLike[str] | None" = None
    opening: "Profile | str | os.PathLike[str] | None" = None
    save: str | os.PathLike[str] | None = None
    framework: str = "torch"
    device: object = None
    model_name: str = ""
    solver: str = "auto"
    effort: str = "fast"
    tags: bool = True
    max_record_iterations: int = 5
    min_hit_rate: float = 0.9
    patience: int = 2
    max_plans: int = 48
    record_only: bool = False
    memory: str = "device"
    budget: str | int | None = None
    pages: bool | None = None
    limit: str | int | None = None

    def __post_init__(self) -> None:
        check_framework(self.framework, self.device)
        self._check_plan()
        self._check_profiles()
        self._check_memory()
        if (self.solver, self.effort, self.budget) != ("auto", "fast", None):
            self.planning(None)
        if Path(self.model_name).name != self.model_name:
            raise OptionError(
                f"model_name={self.model_name!r} cannot be part of a file's name; use letters"
            )
        self._check_numbers()

    def _check_plan(self) -> None:
        if self.plan is None or isinstance(self.plan, str | os.PathLike):
            return
        from pgmo.packing.plan import Plan

        if not isinstance(self.plan, Plan):
            raise OptionError(f"plan={self.plan!r} is neither a Plan nor the path of one")

    def _check_profiles(self) -> None:
        for name in ("profile", "opening"):
            given = getattr(self, name)
            if given is None or isinstance(given, str | os.PathLike):
                continue
            from pgmo.profiler.profile import Profile

            if not isinstance(given, Profile):
                raise OptionError(f"{name}={given!r} is neither a Profile nor the path of one")
        if self.plan is not None and self.profile is not None:
            raise OptionError("plan= and profile= both say what to begin with; give one of them")
        if self.opening is not None and self.profile is None:
            raise OptionError(
                "opening= is the first iteration of what profile= shows; give that, too"
            )

    def _check_memory(self) -> None:
        if self.memory not in MEMORIES:
            raise OptionError(f"memory={self.memory!r} is not one of {', '.join(MEMORIES)}")
        if self.memory == "managed":
            check_managed(self.framework)
        if self.memory == "managed" and str(self.device) == "cpu":
            raise OptionError(
                "memory='managed': unified memory is for CUDA devices, not for device='cpu'"
            )
        if self.budget is not None and str(self.device) == "cpu":
            raise OptionError("budget= is for CUDA devices: device='cpu' has nothing to spill")
        if self.pages not in (None, True, False):
            raise OptionError(f"pages={self.pages!r} must be True, False or None")
        if self.limit is not None and (self.memory == "managed" or self.pages is False):
            raise OptionError("limit= is for memory in pages, so not for pages=False or managed")
        if self.limit_bytes <= 0 and self.limit is not None:
            raise OptionError(f"limit={self.limit!r} must be more than nothing")

    @property
    def limit_bytes(self) -> int:
        """Bytes of pages at most; 0 for as many as the card has."""
        if self.limit is None:
            return 0
        if isinstance(self.limit, int):
            return self.limit
        from pgmo.units import parse_bytes

        return parse_bytes(self.limit)

    @property
    def arena_is_optional(self) -> bool:
        """Whether nothing was asked for that only a recording or an arena can give."""
        return not self.record_only and self.pages is not False and self.budget is None

    def planning(self, alignment: int | None) -> "PlanningOptions":
        """How to plan for an allocator with this alignment, in bytes."""
        from pgmo.packing.planning_options import PlanningOptions

        return PlanningOptions(
            solver=self.solver, effort=self.effort, alignment=alignment, budget=self.budget
        )

    def _check_numbers(self) -> None:
        for name in ("max_record_iterations", "patience", "max_plans"):
            if not isinstance(getattr(self, name), int):
                raise OptionError(f"{name}={getattr(self, name)!r} must be a whole number")
        if not isinstance(self.min_hit_rate, int | float):
            raise OptionError(f"min_hit_rate={self.min_hit_rate!r} must be a number")
        if self.max_record_iterations < 3:
            raise OptionError(
                f"max_record_iterations={self.max_record_iterations} is too few: two iterations "
                "are compared and one more shows what they free; use 3 at least"
            )
        if not 0 <= self.min_hit_rate <= 1:
            raise OptionError(f"min_hit_rate={self.min_hit_rate} is not between 0 and 1")
        for name in ("patience", "max_plans"):
            if getattr(self, name) < 1:
                raise OptionError(f"{name}={getattr(self, name)} must be 1 at least")

    @property
    def save_directory(self) -> Path | None:
        """Where profile and plan are written."""
        return None if self.save is None else Path(self.save)
