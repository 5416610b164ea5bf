"""Callbacks for Lightning, under both of its names (`lightning` and `pytorch_lightning`)."""

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
    from pgmo.cards import Card

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


class PgmoBatchSize(_Callback):
    """Sets the batch size and the accumulation before the loaders are made.

    Takes the place of `BatchSizeFinder` and `Tuner.scale_batch_size`, which run out of memory to
    find out. The script is rehearsed instead; it has to read the attribute where it makes its
    loader, as for these.

    Args:
        batch_arg_name: attribute of the module, of its `hparams`, or of the data module.
        effective_batch: samples of one optimizer step; the accumulation follows. Without it there
            is none.
        max_val: no larger batch is wanted.
        card: to plan for; the current device by default.

    Attributes:
        optimal_batch_size: what was set; None before that. Lightning's own has this name.

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
        """Plans, before Lightning asks for the loaders.

        Raises:
            OptionError: when neither module nor data module has the attribute.
            RehearsalError: when the script cannot be rehearsed, or nothing fits.
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
    """Sets the attribute wherever it is: module, its hparams, data module.

    Raises:
        OptionError: when it is nowhere.
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
            f"neither the module nor the data module has an attribute {name}: name the one that "
            "the loader is made with, as in PgmoBatchSize(batch_arg_name='batch_size')"
        )
