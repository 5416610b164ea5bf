"""Peak of a run to its last step: its training step, later peaks, and growth."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from pgmo.fit.categories import PARAMETER, STATE
from pgmo.fit.laws.law import Law
from pgmo.fit.what_if.arithmetic import Curves, Model, curves_of, peak


@dataclass(frozen=True)
class WholeRun:
    """Memory of a run.

    Attributes:
        curves: bytes by category in a training step.
        later: peak of the live bytes after the history, as in evaluations, without growth.
        growth: bytes by which live memory grows until the last step.
    """

    curves: Curves
    later: int
    growth: int

    @classmethod
    def of(cls, law: Law, value: int | None) -> "WholeRun":
        """Return the run at a value of the option that varies; raise the errors of `Law.at`."""
        return cls(curves_of(law.at(value)), law.later_at(value), law.growth_at(value))

    @property
    def step_peak(self) -> int:
        """Peak of the live bytes in the training step."""
        return peak(self.curves)

    @property
    def peak(self) -> int:
        """Peak of the live bytes in the whole run."""
        return max(self.step_peak, self.later) + self.growth

    def changed(self, change: Callable[[Curves, Model], Curves], model: Model) -> "WholeRun":
        """Return the run with a changed step.

        The later peak shrinks by the parameters and optimizer states that the change saves.
        """
        curves = change(self.curves, model)
        saved = _between_steps(self.curves) - _between_steps(curves)
        return replace(self, curves=curves, later=max(0, self.later - saved))


def _between_steps(curves: Curves) -> int:
    """Return the bytes of parameters and optimizer states after a step's last request."""
    return int(curves[[PARAMETER, STATE], -1].sum()) if curves.shape[1] else 0
