"""A callback for Lightning, under both of its names (`lightning` and `pytorch_lightning`)."""

import sys
from typing import TYPE_CHECKING, Any

from pgmo.allocator.session.session import Session
from pgmo.errors import AdapterError
from pgmo.integrations.training_hook import TrainingHook

_NAMES = ("lightning.pytorch", "pytorch_lightning")

_STRATEGIES = (
    "SingleDeviceStrategy",
    "DDPStrategy",
    "FSDPStrategy",
    "ModelParallelStrategy",
    "DeepSpeedStrategy",
)
"""Those that were tried, in which each process has one device and ends its own iterations."""


def _bases() -> tuple[type, ...]:
    """The classes that callbacks must have: those of the package in use, or of the one there is.

    Raises:
        AdapterError: when Lightning is not installed.
    """
    import importlib

    names = [name for name in _NAMES if name in sys.modules]
    for name in names or _NAMES:
        try:
            importlib.import_module(name)
        except ImportError:
            continue
        if not names:
            names = [name]
    if not names:
        raise AdapterError("Lightning is not installed: pip install lightning")
    return tuple(dict.fromkeys(sys.modules[name].Callback for name in names))


if TYPE_CHECKING:

    class _Callback:
        """What type checkers see of Lightning's own."""

else:
    _Callback = type("_Callback", _bases(), {})


class PgmoCallback(_Callback):
    """Serves a Lightning training's memory from one arena.

    An iteration ends when optimizers have stepped, also with gradient accumulation and with several
    optimizers in one `training_step`. Validation is left out. Checkpoints name the saved plan, and
    a training that goes on from one begins with it. When training ends for want of memory, what is
    known is saved. Each process has a session of its own, and all have one directory of plans. In
    strategies that were not tried it does nothing, and warns.

    Args:
        plan: a saved plan to begin with, or its path.
        save: directory for the profile and the plan.
        device: whose memory; by default the one that the trainer uses.
        options: further options of `pgmo.optimize`.

    Raises:
        OptionError: when an option cannot be used.

    Example:
        >>> trainer = lightning.Trainer(callbacks=[PgmoCallback(save="plans")])  # doctest: +SKIP
    """

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self._hook = TrainingHook(**options)
        self._steps = 0

    @property
    def session(self) -> Session | None:
        """The session, for its summary, profile and plan; None before training has begun."""
        return self._hook.session

    def _repr_html_(self) -> str:
        """What a notebook shows: the session's summary."""
        return self._hook.html(type(self).__name__)

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Opens the session."""
        strategy = type(trainer.strategy).__name__
        if strategy not in _STRATEGIES:
            self._hook.refuse(
                f"Lightning's {strategy} is not supported; {', '.join(_STRATEGIES)} are"
            )
        self._steps = trainer.global_step
        self._hook.begin(trainer.strategy.root_device)

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Ends an iteration if an optimizer has stepped since the last one."""
        if trainer.global_step != self._steps:
            self._steps = trainer.global_step
            self._hook.end_iteration()
        if _validation_is_due(trainer, batch_idx):
            self._hook.pause()  # its loader fetches the first batch before it says anything

    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        """Goes on, where a validation that seemed due did not come."""
        self._hook.resume()

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Leaves validation out."""
        self._hook.pause()

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Goes on after validation."""
        self._hook.resume()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Closes the session."""
        self._hook.end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Keeps what is known if memory ran out, and closes the session."""
        self._hook.fail(exception)

    def state_dict(self) -> dict[str, Any]:
        """What checkpoints keep: where the plan lies."""
        return {"plan": self._hook.plan_path}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Begins with the plan that a checkpoint names, if it is still there."""
        self._hook.remember(state_dict.get("plan"))


def _validation_is_due(trainer: Any, batch_idx: int) -> bool:
    """Whether validation is likely to follow this batch."""
    if not getattr(trainer, "enable_validation", False):
        return False
    interval = getattr(trainer, "val_check_batch", None)
    within = isinstance(interval, int) and interval > 0 and (batch_idx + 1) % interval == 0
    return within or bool(getattr(trainer, "is_last_batch", False))
