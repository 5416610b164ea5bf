"""What one process of `rules.py` runs. Only the standard library."""

from dataclasses import dataclass, field

from loops.job import LoopJob

from switches.tree import PREFIX


@dataclass(frozen=True)
class RuleJob(LoopJob):
    """One run of a loop without some rules.

    Args:
        off: numbers, by their name, that are not the usual ones.
    """

    off: dict[str, float] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """Settings of its process; the native numbers are read from it."""
        changed = {PREFIX + name: repr(value) for name, value in self.off.items()}
        return super().environment | changed
