"""Search for the largest batch whose planned step fits on a card.

Plans with the smallest possible peak are made for two small batches. A line through the two peaks
gives the first guess. From this guess the search goes up in growing strides while a plan fits, or
down until a plan fits. Then the search bisects.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import nn

from pgmo.callable_package import refuse_removed
from pgmo.errors import BudgetError, OptionError
from pgmo.recompute.apply import RecomputeOptions, call_of, planned, settle_state
from pgmo.recompute.outcome import RecomputePlan
from pgmo.recompute.planners.shapes import Shapes
from pgmo.removed import RECOMPUTE

M = TypeVar("M", bound=nn.Module)

_MOST = 1 << 20
"""Largest batch that is tried, in samples. Without a limit, the search would not end if steps take
no memory."""


def largest(
    model: M, inputs: Callable[[int], object], *, start: int = 1, **options: Any
) -> tuple[int, M, RecomputePlan]:
    """Find the largest batch whose step can be planned for a card, and plan that step.

    For each tried batch, the forward pass runs without saving values for the backward pass, and
    operators run one by one to be measured. A batch counts as too large if no plan fits, or if
    PyTorch runs out of memory.

    Args:
        model: a module.
        inputs: called with a number of samples; returns example inputs for `pgmo.recompute`.
        start: smallest batch to try, in samples, from 1.
        options: `card` (required), and other options of `pgmo.recompute`, such as `optimizer`.

    Returns:
        The batch in samples, the model that recomputes, and the plan of its step.

    Raises:
        BudgetError: if the step of the smallest batch does not fit.
        GraphError: if the model cannot be captured.
        OptionError: if `start` is below 1, `card` is missing, or an option is invalid.

    Example:
        >>> batch, model, plan = pgmo.recompute.largest(
        ...     model, lambda batch: torch.ones(batch, 512), card="16GiB", optimizer=optimizer
        ... )  # doctest: +SKIP
    """
    if start < 1:
        raise OptionError(f"start is {start}; a batch has one sample or more")
    if options.get("card") is None:
        raise OptionError('give a card, such as card="RTX 4090" or card="16GiB"')
    refuse_removed(options, RECOMPUTE)
    search = _Search(model, inputs, RecomputeOptions(**options))
    batch = search.run(start)
    made, plan = search.best(batch)
    settle_state(search.options, plan)
    return batch, made, plan


class _Search:
    def __init__(
        self, model: M, inputs: Callable[[int], object], options: RecomputeOptions
    ) -> None:
        self._model, self._inputs, self.options = model, inputs, options
        self._shapes = Shapes()  # Choices for one batch are tried for the next batch.
        self._found: dict[int, tuple[Any, RecomputePlan]] = {}
        self._on_host_from = _MOST + 1  # Smallest batch so far with the state on the host.

    def run(self, start: int) -> int:
        """Return the largest batch that fits; raise BudgetError if `start` does not fit."""
        self._found[start] = self._plan(start, self.options)
        works, fails, stride = start, 0, 1
        batch = max(start + 1, self._guess(start))
        while not fails or fails - works > 1:
            if self._fits(batch):
                works = batch
            else:
                fails = batch
            if works >= _MOST:
                break
            if not fails:
                batch = min(_MOST, works + stride)
            elif works == start:
                batch = max(start + 1, fails - stride)
            else:
                batch = (works + fails) // 2
            stride *= 2
        return works

    def best(self, batch: int) -> tuple[Any, RecomputePlan]:
        """Return model and plan of a batch that fits.

        If the plan has overhead, the batch is planned again without earlier choices, and the plan
        with less overhead is returned.
        """
        known = self._found[batch]
        if known[1].overhead == 0:
            return known
        try:
            own = self._plan(batch, self.options, Shapes())
        except BudgetError:
            return known
        return min(own, known, key=lambda one: one[1].overhead)

    def _plan(
        self, batch: int, options: RecomputeOptions, shapes: Shapes | None = None
    ) -> tuple[Any, RecomputePlan]:
        call, shapes = call_of(self._inputs(batch)), shapes or self._shapes
        try_on_card = batch < self._on_host_from
        found = planned(self._model, call, options, shapes, try_on_card=try_on_card)
        if found[1].state_bytes:
            self._on_host_from = min(self._on_host_from, batch)
        return found

    def _fits(self, batch: int) -> bool:
        try:
            self._found[batch] = self._plan(batch, self.options)
        except (BudgetError, torch.OutOfMemoryError):  # The inputs alone may fill the card.
            return False
        return True

    def _guess(self, start: int) -> int:
        """Return the batch at which a line through two batches' smallest peaks reaches the budget.

        If a peak is unknown, or the second peak is not larger, the result is at most `2 * start`.
        """
        card = self._found[start][1].card
        assert card is not None
        least = replace(self.options, card=None, optimizer=None, beside=0, state=False)
        try:
            less, more = (self._plan(one, least)[1].peak for one in (start, 2 * start))
        except (BudgetError, torch.OutOfMemoryError):
            return start + 1
        if more <= less:
            return 2 * start
        left = replace(card, state_on_host=self.options.state).left
        return min(_MOST, int(start + (left - less) * start / (more - less)))
