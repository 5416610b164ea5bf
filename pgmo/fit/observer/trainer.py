"""Evaluations of trainers, brought forward into the rehearsed steps.

step 10        11                                     500
     |----------|-- the same evaluation, now          |-- evaluation as planned

An evaluation that begins only after the end of the rehearsal counts as not run.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from pgmo.imports import after_import

_STEP = 11
"""Step after which the trainer evaluates early, when the rehearsal has all required iterations."""


class EarlyEvaluation(ABC):
    """Base class of hooks that make a trainer evaluate early, and record whether it did.

    Attributes:
        is_planned: whether the trainer will evaluate.
        has_run: whether an evaluation has ended.
    """

    text = ""
    """Description of the evaluation in the answer."""

    def __init__(self) -> None:
        self.is_planned = self.has_run = False

    @abstractmethod
    def attach(self) -> None:
        """Hook the trainer when it is imported."""

    @property
    def is_missed(self) -> bool:
        """Return whether a planned evaluation has not run."""
        return self.is_planned and not self.has_run


class TrainerEvaluation(EarlyEvaluation):
    """Early evaluation of the Trainer of transformers.

    Args:
        evaluates: returns whether the script itself calls `trainer.evaluate()`, as many scripts do
            after training.
    """

    text = "the evaluation of Trainer"

    def __init__(self, evaluates: Callable[[], bool] = lambda: False) -> None:
        super().__init__()
        self._evaluates = evaluates

    def attach(self) -> None:
        """See `EarlyEvaluation`."""
        after_import("transformers.trainer", self._hook)

    def _hook(self) -> None:
        trainer: Any = sys.modules["transformers.trainer"].Trainer
        train, evaluate = trainer.train, trainer.evaluate

        @wraps(train)
        def recorded_train(self_: Any, *args: Any, **kwargs: Any) -> Any:
            strategy = getattr(self_.args.eval_strategy, "value", self_.args.eval_strategy)
            evaluates = strategy != "no" or self._evaluates()
            self.is_planned = evaluates and self_.eval_dataset is not None
            if self.is_planned:
                self_.add_callback(_early_evaluation())
            return train(self_, *args, **kwargs)

        @wraps(evaluate)
        def recorded_evaluate(*args: Any, **kwargs: Any) -> Any:
            found = evaluate(*args, **kwargs)
            self.has_run = True
            return found

        trainer.train, trainer.evaluate = recorded_train, recorded_evaluate


def _early_evaluation() -> Any:
    """Return a callback that makes the Trainer evaluate after `_STEP` steps."""
    from transformers import TrainerCallback

    class EarlyEvaluationCallback(TrainerCallback):
        steps = 0

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
            self.steps += 1
            if self.steps == _STEP:
                control.should_evaluate = True
            return control

    return EarlyEvaluationCallback()


class LightningValidation(EarlyEvaluation):
    """Early validation of Lightning's Trainer.

    Lightning's check of two batches before training does not count: optimizers have no state yet.
    """

    text = "the validation of Lightning"

    def attach(self) -> None:
        """See `EarlyEvaluation`."""
        for package in ("lightning.pytorch", "pytorch_lightning"):
            for name, hook in (
                ("training_epoch_loop", self._hook_training),
                ("evaluation_loop", self._hook_evaluation),
            ):
                module = f"{package}.loops.{name}"
                after_import(module, partial(hook, module))

    def _hook_training(self, module: str) -> None:
        loop: Any = sys.modules[module]._TrainingEpochLoop
        plain = loop._should_check_val_fx
        began = False

        @wraps(plain)
        def is_time(self_: Any, *args: Any, **kwargs: Any) -> Any:
            nonlocal began
            self.is_planned |= self_.trainer.enable_validation
            is_early = self.is_missed and not began and self_.trainer.global_step >= _STEP
            began |= is_early
            return plain(self_, *args, **kwargs) or is_early

        loop._should_check_val_fx = is_time

    def _hook_evaluation(self, module: str) -> None:
        loop: Any = sys.modules[module]._EvaluationLoop
        plain = loop.run

        @wraps(plain)
        def recorded(self_: Any, *args: Any, **kwargs: Any) -> Any:
            found = plain(self_, *args, **kwargs)
            trainer = self_.trainer
            self.has_run |= trainer.validating and not trainer.sanity_checking
            return found

        loop.run = recorded
