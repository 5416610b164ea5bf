"""Job of one process of `rules.py`. This module needs only the standard library."""

from dataclasses import dataclass, field

from loops.job import LoopJob


@dataclass(frozen=True)
class RuleJob(LoopJob):
    """One run of a loop without some rules.

    Args:
        off: values that replace defaults of `pgmo.allocator.heuristics`, by name.
    """

    off: dict[str, float] = field(default_factory=dict)
