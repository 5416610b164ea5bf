"""Operators whose result sizes depend on values: `nonzero`, masks, `unique` and similar.

On the stub, the kernels of these operators would read unwritten memory. `Sized` takes the sizes
from known or made-up values. Memory is allocated as in the kernels, except for scratch memory of
sorts and scans.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pgmo.rehearsal.values.known import KnownStorages, on_host
from pgmo.rehearsal.values.made_up import MOST, MadeUp, share_of
from pgmo.rehearsal.values.operators import on_card, replacing_kernels

_MASKS = (torch.bool, torch.uint8)

Run = Callable[..., Any]


class Sized:
    """Implementation of these operators. `run` runs an operator and provides its values."""

    def __init__(self, known: KnownStorages, made_up: MadeUp, run: Run) -> None:
        self._known = known
        self._made_up = made_up
        self._run = run
        aten = torch.ops.aten
        self.rules: dict[Any, Run] = {
            aten.nonzero.default: lambda _func, one: self._nonzero(one),
            aten.index.Tensor: self._index,
            aten.index_put.default: self._index,
            aten.index_put_.default: self._index,
            aten._index_put_impl_.default: self._index,
            aten.masked_select.default: self._masked_select,
            aten._unique2.default: self._by_values,
            aten.unique_dim.default: self._by_values,
            aten.unique_consecutive.default: self._by_values,
            aten.bincount.default: self._by_values,
            aten.repeat_interleave.Tensor: self._by_values,
            aten.equal.default: self._equal,
        }

    def begin(self) -> None:
        """Replace the kernel of `nonzero`, because C++ operators call it in backward passes."""
        with replacing_kernels() as self._library:
            self._library.impl("nonzero", self._nonzero, "CUDA")

    def _nonzero(self, mask: Tensor) -> Tensor:
        """Return indices laid out dimension by dimension and transposed, as the kernel does."""
        places = None
        if self._has_values(mask, "nonzero"):
            places = on_host(mask).nonzero()
            count = len(places)
        else:
            count = share_of(mask.numel())
        made = torch.empty((mask.dim(), count), dtype=torch.int64, device=mask.device)
        if places is not None:
            on_host(made).copy_(places.t())
            self._known.add(made)
        else:
            self._known.forget(made)
        return made.t()

    def _index(self, func: Any, one: Tensor, indices: Any, *args: Any, **kwargs: Any) -> Any:
        """Convert masks to indices, as the operator does internally."""
        if any(index is not None and index.dtype in _MASKS for index in indices):
            expanded: list[Tensor | None] = []
            for index in indices:
                if index is None or index.dtype not in _MASKS or not index.is_cuda:
                    expanded.append(index)
                else:
                    expanded.extend(self._nonzero(index).unbind(1))
            indices = expanded
        return self._run(func, (one, indices, *args), kwargs)

    def _masked_select(self, _func: Any, one: Tensor, mask: Tensor) -> Tensor:
        one, mask = torch.broadcast_tensors(one, mask)  # type: ignore[no-untyped-call]
        made: Tensor = self._index(torch.ops.aten.index.Tensor, one, [mask])
        return made

    def _by_values(self, func: Any, one: Tensor, *args: Any, **kwargs: Any) -> Any:
        """Compute the operator on the host and copy the result to the card."""
        if not self._has_values(one, func._schema.name.removeprefix("aten::")):
            one = one.reshape(-1)[:MOST].clone()
            self._known.forget(one)
            self._made_up.fill(one, "size")
        given = [
            on_host(value) if isinstance(value, Tensor) and value.is_cuda else value
            for value in args
        ]
        found = func(on_host(one), *given, **kwargs)
        scratch = torch.empty(2 * one.numel(), dtype=torch.int64, device=one.device)
        del scratch
        if isinstance(found, Tensor):
            return self._taken(found, one.device)
        return tuple(self._taken(part, one.device) for part in found)

    def _taken(self, found: Tensor, device: torch.device) -> Tensor:
        made = torch.empty(found.shape, dtype=found.dtype, device=device)
        if made.numel():
            on_host(made).copy_(found)
        self._known.add(made)
        return made

    def _equal(self, _func: Any, one: Tensor, other: Tensor) -> bool:
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        if not all(self._has_values(part, "equal") for part in on_card((one, other))):
            return False
        here, there = (on_host(part) if part.is_cuda else part for part in (one, other))
        return torch.equal(here, there)

    def _has_values(self, one: Tensor, reader: str) -> bool:
        """Return whether a tensor has values; an unknown tensor of floats gets made-up values."""
        if one in self._known:
            return True
        self._made_up.note_size(reader)
        return one.is_floating_point() and self._made_up.fill(one, reader)
