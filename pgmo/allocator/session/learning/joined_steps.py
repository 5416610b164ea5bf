"""Steps that are joined into one iteration, because requests repeat only after several steps.

    steps of two models      A     B     A     B
    gradients of A           [=====|=====)[=====|=====)
    iterations               [ A     B   |  A     B   )

Gradients of one model live through the step of the other model. A plan for the other model's step
knows nothing of these gradients, so they would occupy its slots.
"""

from pgmo import _core
from pgmo.allocator import heuristics
from pgmo.allocator.session.options import Options


class JoinedSteps:
    """Number of steps that form an iteration.

    Saved profiles and plans consist of single steps, so sessions that make them join no steps.

    Attributes:
        steps: number of steps per iteration.
        allowed: whether steps may be joined.
    """

    def __init__(self, engine: _core.Engine, options: Options) -> None:
        self._engine = engine
        single = options.needs_found_plans or options.record_only
        self.allowed = not single and heuristics.current.longest_period > 1
        self.steps = 1
        engine.set_steps(1)

    def join(self, period: int) -> bool:
        """Join the iterations of a period into one; return False if the period is 1 or too long."""
        steps = self.steps * period
        if period <= 1 or steps > heuristics.current.longest_period:
            return False
        self._set(steps)
        return True

    def separate(self) -> None:
        """Make each step an iteration again."""
        self._set(1)

    def _set(self, steps: int) -> None:
        if steps != self.steps:
            self._engine.forget_levels()  # growth per iteration changes with the iteration's length
        self.steps = steps
        self._engine.set_steps(steps)
