"""Batch sizes that are planned before training: for accelerate, Lightning and transformers.

Each takes the place of the library's own search, which tries batches until one has run out of
memory. Here the script is rehearsed instead, and what it is given has fitted there.
"""

import functools
import gc
from collections.abc import Callable
from typing import Any, TypeVar, cast

from pgmo.cards import Card
from pgmo.errors import PgmoError
from pgmo.fit.batch_size import planned
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
    """Takes the place of `accelerate.utils.find_executable_batch_size`, with the same arguments.

    The decorated function is called with the largest batch that fits, and no larger than the
    starting one. Should memory run out all the same, because the card is shared with others, it is
    called again with a smaller one, as accelerate does.

    Args:
        function: takes the batch size first.
        starting_batch_size: the largest that is wanted.
        reduce_batch_size_fn: gives the next one after memory has run out; by default 0.9 of it.
            Its batches that are no smaller than the one that did not fit are left out.
        card: to plan for; the current device by default.

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
    """Sets batch and accumulation of transformers' `TrainingArguments`, before the Trainer is made.

    Args:
        arguments: those of the Trainer; changed in place.
        effective_batch: samples of one optimizer step on one card; by default what the arguments
            say now, batch times accumulation.
        card: to plan for; the current device by default.

    Returns:
        The arguments.

    Raises:
        RehearsalError: when the script cannot be rehearsed, or not even a batch of 1 fits.

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
    """The planned batch; the largest that is wanted, with a warning, where none can be planned."""
    try:
        return planned(most=most, card=card)[0]
    except PgmoError as error:
        warn_user(f"pgmo could not plan the batch size, and begins with {most}: {error}")
        return most


def _smaller(size: int, reduce: Callable[[], int] | None) -> int:
    """The next batch: who counts down from the starting one is above the planned one at first."""
    following = size if reduce is None else reduce()
    while reduce is not None and following >= size:
        before, following = following, reduce()
        if following >= before:
            break  # it does not count down
    return following if following < size else int(size * 0.9)


def _clear() -> None:
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
