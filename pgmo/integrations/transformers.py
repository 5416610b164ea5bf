"""A callback for the Trainer of transformers."""

from typing import TYPE_CHECKING, Any

from pgmo.allocator.session.session import Session
from pgmo.errors import AdapterError
from pgmo.integrations.training_hook import TrainingHook

if TYPE_CHECKING:

    class _Callback:
        """What type checkers see of transformers' own."""

else:
    try:
        from transformers.trainer_callback import ExportableState, TrainerCallback
    except ImportError as error:
        raise AdapterError(
            "transformers is not installed: pip install transformers accelerate"
        ) from error

    class _Callback(TrainerCallback, ExportableState):
        """Of both kinds: exportable ones are written to `trainer_state.json`."""


class PgmoTrainerCallback(_Callback):
    """Serves the memory of `Trainer.train` from one arena.

    An iteration ends with each step of the optimizer, also with gradient accumulation. Evaluation
    is left out. Checkpoints name the saved plan in `trainer_state.json`. When the program ends for
    want of memory, what is known is saved. Each process has a session of its own, and all of them
    one directory of plans. With several devices in one process it does nothing, and warns.

    Args:
        plan: a saved plan to begin with, or its path.
        save: directory for the profile and the plan.
        device: whose memory; by default the one that the trainer uses.
        options: further options of `pgmo.optimize`.

    Raises:
        OptionError: when an option cannot be used.

    Example:
        >>> trainer = Trainer(..., callbacks=[PgmoTrainerCallback()])  # doctest: +SKIP
    """

    def __init__(self, **options: Any) -> None:
        super().__init__()
        options.pop("profile_iterations", None)  # of checkpoints that earlier versions have written
        save = options.get("save")
        self._arguments = {"save": save and str(save)}
        self._hook = TrainingHook(**options)

    @property
    def session(self) -> Session | None:
        """The session, for its summary, profile and plan; None before training has begun."""
        return self._hook.session

    @property
    def plan_path(self) -> str | None:
        """Where the plan lies."""
        return self._hook.plan_path

    @plan_path.setter
    def plan_path(self, path: str | None) -> None:
        self._hook.remember(path)  # a checkpoint's

    def _repr_html_(self) -> str:
        """What a notebook shows: the session's summary."""
        return self._hook.html(type(self).__name__)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Opens the session."""
        reason = _unsupported(args)
        if reason:
            self._hook.refuse(f"{reason} is not supported")
        self._hook.begin(args.device)

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Goes on, where an evaluation was left without saying so."""
        self._hook.resume()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Ends an iteration; leaves out the evaluation that is due."""
        self._hook.end_iteration()
        if control.should_evaluate:
            self._hook.pause()

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Leaves out the evaluation that is due."""
        if control.should_evaluate:
            self._hook.pause()

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Goes on after evaluation."""
        self._hook.resume()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Closes the session."""
        self._hook.end()

    def state(self) -> dict[str, Any]:
        """What checkpoints keep: where the plan lies."""
        return {"args": self._arguments, "attributes": {"plan_path": self.plan_path}}


def _unsupported(args: Any) -> str:
    """What of these training arguments makes it impossible; "" for nothing."""
    if args.n_gpu > 1:
        return "torch.nn.DataParallel (several devices in one process)"
    if args.device.type not in ("cpu", "cuda"):
        return f"a device of type {args.device.type}"
    return ""
