"""What one process of `rules.py` runs. Only the standard library."""

from dataclasses import dataclass, field

from loops.job import LoopJob


@dataclass(frozen=True)
class RuleJob(LoopJob):
    """One run of a loop without some rules.

    Args:
        off: heuristics that do not have their default, by their name in
            `pgmo.allocator.heuristics`.
    """

    off: dict[str, float] = field(default_factory=dict)
