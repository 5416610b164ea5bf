"""Options of `pgmo.optimize`."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pgmo.allocator.adapters.frameworks import check_framework
from pgmo.errors import OptionError

# Other modules are imported only for options that need them: `pgmo run` checks its options before
# it runs a script, and must not import much.
if TYPE_CHECKING:
    from pgmo.packing.plan import Plan
    from pgmo.packing.planning_options import PlanningOptions


@dataclass(frozen=True, eq=False)
class Options:
    """Checked options of a session, which `pgmo.optimize` documents.

    Raises:
        OptionError: if a value is invalid.
    """

    plan: "Plan | str | os.PathLike[str] | None" = None
    save: str | os.PathLike[str] | None = None
    framework: str = "torch"
    device: object = None
    model_name: str = ""
    tags: bool | None = None
    record_only: bool = False
    budget: str | int | None = None
    pages: bool | None = None
    limit: str | int | None = None

    def __post_init__(self) -> None:
        check_framework(self.framework, self.device)
        self._check_plan()
        self._check_memory()
        if self.budget is not None:
            self.planning(None)
        if Path(self.model_name).name != self.model_name:
            raise OptionError(
                f"model_name={self.model_name!r} cannot be part of a file's name; use letters"
            )

    def _check_plan(self) -> None:
        if self.plan is None or isinstance(self.plan, str | os.PathLike):
            return
        from pgmo.packing.plan import Plan

        if not isinstance(self.plan, Plan):
            raise OptionError(f"plan={self.plan!r} is neither a Plan nor the path of a plan")

    def _check_memory(self) -> None:
        if self.budget is not None and str(self.device) == "cpu":
            raise OptionError("budget= is for CUDA devices: device='cpu' has nothing to spill")
        if self.pages not in (None, True, False):
            raise OptionError(f"pages={self.pages!r} must be True, False or None")
        if self.limit is not None and self.pages is False:
            raise OptionError("limit= is for memory in pages, so not for pages=False")
        if self.limit_bytes <= 0 and self.limit is not None:
            raise OptionError(f"limit={self.limit!r} must be positive")

    @property
    def limit_bytes(self) -> int:
        """Maximum bytes of pages; 0 for no limit."""
        if self.limit is None:
            return 0
        if isinstance(self.limit, int):
            return self.limit
        from pgmo.units import parse_bytes

        return parse_bytes(self.limit)

    @property
    def names_blocks(self) -> bool:
        """Return whether an iteration is tagged. If `tags` is None, this is `needs_first`."""
        return self.needs_first if self.tags is None else self.tags

    @property
    def needs_first(self) -> bool:
        """Return whether profiles of the first iteration and of all structures are needed."""
        return self.record_only or self.save is not None

    @property
    def needs_any_plan(self) -> bool:
        """Return whether a profile or plan is needed even if no two iterations agree."""
        return self.record_only or self.budget is not None

    @property
    def needs_found_plans(self) -> bool:
        """Return whether a plan for iterations that repeat is needed even if it does not pay."""
        return self.save is not None or self.budget is not None

    @property
    def arena_is_optional(self) -> bool:
        """Return whether the session may serve no slots if an arena would take more memory."""
        return not self.record_only and self.pages is not False and self.budget is None

    def planning(self, alignment: int | None) -> "PlanningOptions":
        """Return the planning options for an alignment in bytes; None for the default."""
        from pgmo.packing.planning_options import PlanningOptions

        return PlanningOptions(effort="fast", alignment=alignment, budget=self.budget)

    @property
    def save_directory(self) -> Path | None:
        """Directory for the saved profile and plan; None if they are not saved."""
        return None if self.save is None else Path(self.save)
