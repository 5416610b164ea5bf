"""Computation of operators on the host, in the memory that they have allocated on the card."""

from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from pgmo.rehearsal.values.known import KnownStorages, address_of, covers, on_host, readable
from pgmo.rehearsal.values.made_up import MOST, MadeUp
from pgmo.rehearsal.values.operators import CHOOSES, CREATES, KEEPS, Operator, on_card

MOST_FLOATS = 1 << 16
"""Maximum number of elements of float results to compute, if no choice depends on these results."""

_HOST = torch.device("cpu")


class Replay:
    """Selection of the operators to compute, and their computation."""

    def __init__(self, known: KnownStorages, made_up: MadeUp) -> None:
        self._known = known
        self._made_up = made_up

    def after(self, func: Any, op: Operator, args: Any, kwargs: Any, out: Any) -> None:
        """Compute or guess the results of an operator after its run, or mark them as unknown."""
        written = op.written(args, kwargs, out)
        if not written or op.name in KEEPS:
            return
        creates = op.name in CREATES
        if creates or not all(map(readable, written)):
            self._forget(written)
            if creates:
                self._clear(written)
            return
        read = [one for part in (args, kwargs.values()) for one in on_card(tuple(part))]
        if op.overwrites:
            targets = {address_of(one) for one in written if covers(one)}
            read = [one for one in read if address_of(one) not in targets]
        if op.name.startswith("c10d::"):  # a collective, in which other ranks take part
            self._pass_on(written, read)
            return
        discrete = not any(one.is_floating_point() or one.is_complex() for one in written)
        discrete = discrete or op.name in CHOOSES
        limit = MOST if discrete else MOST_FLOATS
        if any(one.numel() > limit for one in written) or not self._ready(
            op, read, limit, discrete=discrete
        ):
            self._forget(written)
            if discrete and not op.writes:
                self._guess(op, written, read)
            return
        if self._compute(func, op, args, kwargs, out):
            for one in written:
                self._known.add(one)
        else:
            self._forget(written)

    def _pass_on(self, written: list[Tensor], read: list[Tensor]) -> None:
        """Mark the results of a fake collective as known if all inputs are known, else unknown.

        The collective copies its inputs.
        """
        targets = {address_of(one) for one in written}
        sources = [one for one in read if address_of(one) not in targets]
        for one in written if sources else ():
            if all(source in self._known for source in sources):
                self._known.add(one)
            else:
                self._known.forget(one)

    def _ready(self, op: Operator, read: list[Tensor], limit: int, *, discrete: bool) -> bool:
        """Return whether all inputs have values, made up if a choice depends on them."""
        for one in read:
            if one.numel() > limit or not readable(one):
                return False
            if one in self._known:
                continue
            if not discrete or op.writes:
                return False
        return all(one in self._known or self._made_up.fill(one, op.name) for one in read)

    def _compute(self, func: Any, op: Operator, args: Any, kwargs: Any, out: Any) -> bool:
        """Compute an operator on the host. Return whether that succeeded."""
        with self._made_up.drawing() if op.random else nullcontext():
            try:
                given, options = tree_map(_moved, (args, kwargs))
                options.pop("pin_memory", None)
                made = func(*given, **options)
            except Exception:  # the host lacks this operator, or the values make no sense
                return False
        targets, sources = _tensors(out), _tensors(made)
        if [one.shape for one in targets] != [one.shape for one in sources]:
            return False
        for target, source in zip(targets, sources, strict=True):
            if target.is_cuda and target.numel():
                on_host(target).copy_(source)
        return True

    def _guess(self, op: Operator, written: list[Tensor], read: list[Tensor]) -> None:
        """Guess small results: `all` is true, other Booleans are false, and other integers are 0.

        A sum or a count is half of the number of elements.
        """
        for one in written:
            if one.numel() > MOST_FLOATS:
                continue
            host = on_host(one)
            if host.dtype is torch.bool:
                host.fill_(op.name == "all")
            elif op.name in ("sum", "count_nonzero") and read:
                host.fill_(max(1, read[0].numel() // (2 * max(1, one.numel()))))
            elif not host.is_floating_point():
                host.zero_()
            else:
                continue
            self._known.add(one)

    def _clear(self, made: list[Tensor]) -> None:
        """Set new integer tensors to zero: a script may write and read them element by element."""
        for one in made:
            if not one.is_floating_point() and 0 < one.numel() <= MOST_FLOATS and covers(one):
                on_host(one).zero_()
                self._known.add(one)

    def _forget(self, written: Iterable[Tensor]) -> None:
        for one in written:
            self._known.forget(one)


def _moved(value: Any) -> Any:
    """Return the argument moved to the host."""
    if isinstance(value, Tensor):
        return on_host(value) if value.is_cuda else value
    if isinstance(value, torch.device):
        return _HOST if value.type == "cuda" else value
    return None if isinstance(value, torch.Generator) else value


def _tensors(value: Any) -> list[Tensor]:
    return [one for one in tree_leaves(value) if isinstance(one, Tensor)]
