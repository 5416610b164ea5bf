"""Callbacks for Lightning, under both its names (`lightning` and `pytorch_lightning`)."""

import sys
from typing import TYPE_CHECKING, Any

from pgmo.allocator.session.session import Session
from pgmo.errors import AdapterError, OptionError
from pgmo.integrations.training_hook import TrainingHook

_NAMES = ("lightning.pytorch", "pytorch_lightning")

_STRATEGIES = (
    "SingleDeviceStrategy",
    "DDPStrategy",
    "FSDPStrategy",
    "ModelParallelStrategy",
    "DeepSpeedStrategy",
)
"""Supported strategies, with which each process has one device and ends its own iterations."""


def _bases() -> tuple[type, ...]:
    """Return the callback classes of all imported Lightning packages, else of an installed one."""
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
        raise AdapterError("Lightning cannot be imported: pip install lightning")
    return tuple(dict.fromkeys(sys.modules[name].Callback for name in names))


if TYPE_CHECKING:
    from pgmo.cards import Card

    class _Callback:
        """Stand-in for Lightning's class, for type checkers."""

else:
    _Callback = type("_Callback", _bases(), {})


class PgmoCallback(_Callback):
    """Callback that opens a session of pgmo for a Lightning training.

    An iteration ends with each batch in which an optimizer has stepped, even with gradient
    accumulation or several optimizers in one `training_step`. During validation, the session is
    paused. Checkpoints store the path of the saved plan, and a resumed training starts with this
    plan. If training runs out of memory, the callback saves files that show what held the memory.
    Each process has its own session, and all processes share one directory of plans. The trainer's
    loggers get the figures of `pgmo.metrics` when the trainer logs. If no session can be opened,
    the callback only warns.

    Args:
        plan: a saved plan to start with, or its path.
        save: directory for the profile, the plan, and files about an out-of-memory error.
        device: device to serve; default the trainer's device.
        options: further options of `pgmo.optimize`.

    Raises:
        OptionError: for an invalid option.

    Example:
        >>> trainer = lightning.Trainer(callbacks=[PgmoCallback(save="plans")])  # doctest: +SKIP
    """

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self._hook = TrainingHook(**options)
        self._steps = 0

    @property
    def session(self) -> Session | None:
        """The session, with summary, profile and plan; None before training begins."""
        return self._hook.session

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Open the session. If that is impossible, warn."""
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
        """End an iteration if an optimizer has stepped. Log figures; pause for a due validation."""
        stepped = trainer.global_step != self._steps
        if stepped:
            self._steps = trainer.global_step
            self._hook.end_iteration()
        if stepped or not pl_module.automatic_optimization:
            self._log(trainer)
        if _validation_is_due(trainer, batch_idx):
            self._hook.pause()  # the validation loader fetches its first batch before any hook

    def _log(self, trainer: Any) -> None:
        """Log the session's figures when the trainer logs, at the same step.

        The step for logs counts batches, while `global_step` counts each optimizer's steps.
        Lightning's own callbacks, such as `LearningRateMonitor`, use the same private names.
        """
        if not trainer.loggers or not trainer._logger_connector.should_update_logs:
            return
        found = self._hook.metrics()
        step = trainer.fit_loop.epoch_loop._batches_that_stepped
        for logger in trainer.loggers if found else ():
            logger.log_metrics(found, step=step)

    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        """Resume if an expected validation did not happen."""
        self._hook.resume()

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Pause for the validation."""
        self._hook.pause()

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Resume after the validation."""
        self._hook.resume()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Close the session."""
        self._hook.end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Close the session. If memory ran out, first save files that show what held memory."""
        self._hook.fail(exception)

    def state_dict(self) -> dict[str, Any]:
        """Return the state for checkpoints: the path of the plan."""
        return {"plan": self._hook.plan_path}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Start with a checkpoint's plan, if its file exists and no plan was given."""
        self._hook.remember(state_dict.get("plan"))


def _validation_is_due(trainer: Any, batch_idx: int) -> bool:
    if not getattr(trainer, "enable_validation", False):
        return False
    interval = getattr(trainer, "val_check_batch", None)
    within = isinstance(interval, int) and interval > 0 and (batch_idx + 1) % interval == 0
    return within or bool(getattr(trainer, "is_last_batch", False))


class PgmoBatchSize(_Callback):
    """Callback that plans the batch size, and sets batch size and accumulation before training.

    `PgmoBatchSize` rehearses the script. It replaces `BatchSizeFinder` and
    `Tuner.scale_batch_size`, which run out of memory on purpose. As with these classes, the script
    must read the batch size from the attribute when it makes its loader.

    Args:
        batch_arg_name: attribute of the module, of its `hparams`, or of the data module.
        effective_batch: samples of one optimizer step, which determine the accumulation. With None,
            the accumulation is unchanged.
        max_val: upper limit of the batch.
        card: card to plan for; default the current device.

    Attributes:
        optimal_batch_size: the planned batch; None before planning. The name is that of Lightning's
            own callback.

    Example:
        >>> trainer = lightning.Trainer(callbacks=[PgmoBatchSize()])  # doctest: +SKIP
    """

    def __init__(
        self,
        *,
        batch_arg_name: str = "batch_size",
        effective_batch: int | None = None,
        max_val: int = 8192,
        card: "str | Card | None" = None,
    ) -> None:
        super().__init__()
        self._name = batch_arg_name
        self._effective = effective_batch
        self._most = max_val
        self._card = card
        self.optimal_batch_size: int | None = None

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Plan the batch of a training, before Lightning asks for the loaders.

        Raises:
            OptionError: if the attribute does not exist, no script is running, or there is no card.
            RehearsalError: if the script cannot be rehearsed, or nothing fits.
            AdapterError: if there is no compiler for the rehearsal's stub.
        """
        if stage != "fit":
            return
        from pgmo.fit.batch_size import planned

        batch, steps = planned(most=self._most, effective=self._effective, card=self._card)
        set_attribute(trainer, pl_module, self._name, batch)
        self.optimal_batch_size = batch
        if self._effective is not None:
            trainer.accumulate_grad_batches = steps


def set_attribute(trainer: Any, module: Any, name: str, value: int) -> None:
    """Set an attribute of the module, the data module and their `hparams`, where it exists.

    Raise `OptionError` if the attribute exists nowhere.
    """
    found = False
    for holder in (module, getattr(trainer, "datamodule", None)):
        if holder is None:
            continue
        hparams = getattr(holder, "hparams", None)
        if hparams is not None and name in hparams:
            hparams[name] = value
            found = True
        if hasattr(holder, name):
            setattr(holder, name, value)
            found = True
    if not found:
        raise OptionError(
            f"neither the module nor the data module has an attribute {name}: name the "
            "attribute from which the loader takes its batch size, as in "
            "PgmoBatchSize(batch_arg_name='batch_size')"
        )
