"""Callback for the Trainer of transformers."""

import functools
from typing import TYPE_CHECKING, Any

from pgmo.allocator.session.session import Session
from pgmo.errors import AdapterError
from pgmo.integrations.training_hook import TrainingHook

if TYPE_CHECKING:
    CallbackHandler: Any

    class _Callback:
        """Stand-in for transformers' class, for type checkers."""

else:
    try:
        from transformers.trainer_callback import (
            CallbackHandler,
            ExportableState,
            TrainerCallback,
        )
    except ImportError as error:
        raise AdapterError(
            f"transformers cannot be used ({error}): pip install -U transformers accelerate"
        ) from error

    class _Callback(TrainerCallback, ExportableState):
        """Callback whose state the trainer writes to `trainer_state.json`."""


class PgmoTrainerCallback(_Callback):
    """Callback that opens a session of pgmo for `Trainer.train`.

    An iteration ends with each optimizer step, even with gradient accumulation. During evaluation,
    the session is paused. Checkpoints store the path of the saved plan in `trainer_state.json`. If
    the program runs out of memory, the callback saves files that show what held the memory. Each
    process has its own session, and all processes share one directory of plans. With several
    devices in one process, an unsupported device, or if the session cannot be opened, the callback
    only warns. The trainer's training logs also get the figures of `pgmo.metrics`. For this
    purpose, importing this module replaces transformers' `CallbackHandler.on_log`.

    Args:
        plan: a saved plan to start with, or its path.
        save: directory for the profile, the plan, and files about an out-of-memory error.
        device: device to serve; default the trainer's device.
        options: further options of `pgmo.optimize`.

    Raises:
        OptionError: for an invalid option.

    Example:
        >>> trainer = Trainer(..., callbacks=[PgmoTrainerCallback()])  # doctest: +SKIP
    """

    def __init__(self, **options: Any) -> None:
        super().__init__()
        options.pop("profile_iterations", None)  # an option in checkpoints of earlier versions
        save = options.get("save")
        self._arguments = {"save": save and str(save)}
        self._hook = TrainingHook(**options)

    @property
    def session(self) -> Session | None:
        """The session, with summary, profile and plan; None before training begins."""
        return self._hook.session

    @property
    def plan_path(self) -> str | None:
        """Path of the saved plan, else of the given plan; None if there is neither."""
        return self._hook.plan_path

    @plan_path.setter
    def plan_path(self, path: str | None) -> None:
        self._hook.remember(path)  # the trainer sets this when it loads a checkpoint

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Open the session. If that is impossible, warn."""
        reason = _unsupported(args)
        if reason:
            self._hook.refuse(f"{reason} is not supported")
        self._hook.begin(args.device)

    def metrics(self) -> dict[str, float]:
        """Return the figures for the trainer's logs; {} without an open session, or on an error."""
        return self._hook.metrics()

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Resume if an evaluation has ended without a call of `on_evaluate`."""
        self._hook.resume()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End an iteration, and pause for an evaluation that is due."""
        self._hook.end_iteration()
        if control.should_evaluate:
            self._hook.pause()

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Pause for an evaluation that is due."""
        if control.should_evaluate:
            self._hook.pause()

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Resume after the evaluation."""
        self._hook.resume()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Close the session."""
        self._hook.end()

    def state(self) -> dict[str, Any]:
        """Return the state for checkpoints: the argument `save`, and the path of the plan."""
        return {"args": self._arguments, "attributes": {"plan_path": self.plan_path}}


def _unsupported(args: Any) -> str:
    """Return an unsupported feature that the training arguments use; "" for none."""
    if args.n_gpu > 1:
        return "torch.nn.DataParallel (several devices in one process)"
    if args.device.type not in ("cpu", "cuda"):
        return f"a device of type {args.device.type}"
    return ""


def _add_metrics_to_logs() -> None:
    """Add the sessions' figures to the logs of trainers, except logs of evaluations.

    Callbacks of the user run after callbacks that report to TensorBoard and similar tools. So the
    figures are added before the first callback runs.
    """
    log = CallbackHandler.on_log

    @functools.wraps(log)
    def with_metrics(
        handler: Any, args: Any, state: Any, control: Any, logs: dict[str, float], **kwargs: Any
    ) -> Any:
        if not any(name.startswith("eval_") for name in logs):
            for callback in handler.callbacks:
                if isinstance(callback, PgmoTrainerCallback):
                    logs.update(callback.metrics())
        return log(handler, args, state, control, logs, **kwargs)

    CallbackHandler.on_log = with_metrics


if not TYPE_CHECKING:
    _add_metrics_to_logs()
