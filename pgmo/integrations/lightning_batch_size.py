"""A callback for Lightning in the place of its tuner's search for a batch size."""

from typing import TYPE_CHECKING, Any

from pgmo.cards import Card
from pgmo.fit.batch_size import planned

if TYPE_CHECKING:

    class _Callback:
        """What type checkers see of Lightning's own."""

else:
    from pgmo.integrations.lightning import _bases

    _Callback = type("_Callback", _bases(), {})


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
        card: str | Card | None = None,
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
    from pgmo.errors import OptionError

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
