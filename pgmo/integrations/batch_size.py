"""Batch sizes planned before training, for accelerate and transformers.

The libraries' own searches try batches until memory runs out. The functions of this module rehearse
the script instead. A planned batch has fitted in a rehearsal.
"""

import functools
import gc
from collections.abc import Callable
from typing import Any, TypeVar, cast

from pgmo.cards import Card
from pgmo.errors import PgmoError
from pgmo.fit.batch_size import planned, rehearsed_batch
from pgmo.runner.out_of_memory import is_out_of_memory
from pgmo.user_warnings import warn_user

F = TypeVar("F", bound=Callable[..., Any])


def find_executable_batch_size(
    function: F | None = None,
    starting_batch_size: int = 128,
    reduce_batch_size_fn: Callable[[], int] | None = None,
    *,
    card: str | Card | None = None,
) -> Any:
    """Decorate a function, like accelerate's decorator of this name with the same arguments.

    The decorated function is called with the largest batch that fits, at most
    `starting_batch_size`. If planning fails, pgmo warns and begins with `starting_batch_size`. If
    memory still runs out, pgmo calls the function again with a smaller batch, as accelerate does.

    Args:
        function: function that takes the batch size as its first argument.
        starting_batch_size: maximum number of samples in a batch.
        reduce_batch_size_fn: returns the next batch after memory ran out; default 0.9 of the failed
            batch. Batches that are not smaller than the failed batch are skipped.
        card: card to plan for; default the current device.

    Returns:
        The decorated function, which raises `RuntimeError` if no batch fits; or a decorator.

    Example:
        >>> @find_executable_batch_size(starting_batch_size=512)  # doctest: +SKIP
        ... def train(batch_size): ...
    """
    if function is None:
        return functools.partial(
            find_executable_batch_size,
            starting_batch_size=starting_batch_size,
            reduce_batch_size_fn=reduce_batch_size_fn,
            card=card,
        )
    called = function

    @functools.wraps(called)
    def call(*arguments: Any, **options: Any) -> Any:
        rehearsed = rehearsed_batch()
        if rehearsed is not None:  # running out of memory is a result, so try no smaller batch
            return called(rehearsed, *arguments, **options)
        size = _planned_or(starting_batch_size, card)
        while size > 0:
            try:
                return called(size, *arguments, **options)
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
            _clear()
            size = _smaller(size, reduce_batch_size_fn)
        raise RuntimeError("No executable batch size found, reached zero.")

    return cast("F", call)


def plan_arguments(
    arguments: Any, effective_batch: int | None = None, *, card: str | Card | None = None
) -> Any:
    """Set batch size and accumulation in transformers' `TrainingArguments`, before the Trainer.

    Args:
        arguments: arguments of the Trainer, changed in place. `auto_find_batch_size` becomes False.
        effective_batch: samples of one optimizer step on one card; default the current batch times
            the accumulation steps.
        card: card to plan for; default the current device.

    Returns:
        The arguments.

    Raises:
        RehearsalError: if the script cannot be rehearsed, or not even a batch of 1 fits.
        OptionError: if no script is running, as in a notebook, there is no card, or
            `effective_batch` is below 1.
        AdapterError: if there is no compiler for the rehearsal's stub.

    Example:
        >>> arguments = plan_arguments(TrainingArguments("out"), 256)  # doctest: +SKIP
        >>> arguments.per_device_train_batch_size  # doctest: +SKIP
        16
    """
    if effective_batch is None:
        micro = arguments.per_device_train_batch_size
        effective_batch = micro * arguments.gradient_accumulation_steps
    batch, steps = planned(effective=effective_batch, card=card)
    arguments.per_device_train_batch_size = batch
    arguments.gradient_accumulation_steps = steps
    arguments.auto_find_batch_size = False
    return arguments


def _planned_or(most: int, card: str | Card | None) -> int:
    """Return the planned batch size. If planning fails, warn and return the upper limit."""
    try:
        return planned(most=most, card=card)[0]
    except PgmoError as error:
        warn_user(f"pgmo could not plan the batch size and starts with {most}: {error}")
        return most


def _smaller(size: int, reduce: Callable[[], int] | None) -> int:
    """Return a smaller batch: the next smaller value of `reduce`, or 0.9 of the failed batch."""
    following = size if reduce is None else reduce()
    while reduce is not None and following >= size:
        before, following = following, reduce()
        if following >= before:
            break  # the user's function does not count down
    return following if following < size else int(size * 0.9)


def _clear() -> None:
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
