"""Evaluation of a Trainer of transformers, brought forward into the rehearsed steps.

step 10        11                                     500
     |----------|-- the same evaluation, now          |-- evaluation as planned

An evaluation that is too long is interrupted with the rehearsal, and then counts as not run.
"""

import sys
from functools import wraps
from typing import Any

from pgmo.imports import after_import

_STEP = 11
"""Step after which it evaluates: the first one in which a rehearsal may be interrupted."""


class TrainerEvaluation:
    """Hooks on the Trainer, which note whether it evaluates and whether an evaluation ended."""

    def __init__(self) -> None:
        self.is_planned = self.has_run = False

    def attach(self) -> None:
        """Hook the Trainer when it is imported."""
        after_import("transformers.trainer", self._hook)

    @property
    def is_missed(self) -> bool:
        """Return whether a planned evaluation has not run."""
        return self.is_planned and not self.has_run

    def _hook(self) -> None:
        trainer: Any = sys.modules["transformers.trainer"].Trainer
        train, evaluate = trainer.train, trainer.evaluate

        @wraps(train)
        def noted_train(self_: Any, *args: Any, **kwargs: Any) -> Any:
            strategy = getattr(self_.args.eval_strategy, "value", self_.args.eval_strategy)
            self.is_planned = strategy != "no" and self_.eval_dataset is not None
            if self.is_planned:
                self_.add_callback(_early_evaluation())
            return train(self_, *args, **kwargs)

        @wraps(evaluate)
        def noted_evaluate(*args: Any, **kwargs: Any) -> Any:
            found = evaluate(*args, **kwargs)
            self.has_run = True
            return found

        trainer.train, trainer.evaluate = noted_train, noted_evaluate


def _early_evaluation() -> Any:
    """Return a callback that lets the Trainer evaluate after a few steps."""
    from transformers import TrainerCallback

    class EarlyEvaluation(TrainerCallback):
        steps = 0

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
            self.steps += 1
            if self.steps == _STEP:
                control.should_evaluate = True
            return control

    return EarlyEvaluation()
