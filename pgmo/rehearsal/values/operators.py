"""What an operator's schema says of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

_CREATES = {
    "empty",
    "empty_like",
    "empty_strided",
    "empty_permuted",
    "new_empty",
    "new_empty_strided",
}
"""Tensors without values."""

_LEAVES = {"resize_", "resize_as_", "set_", "record_stream"}
"""What a tensor holds as it is, or leads to what nobody knows."""

_OVERWRITES = {
    "copy_",
    "fill_",
    "zero_",
    "uniform_",
    "normal_",
    "random_",
    "bernoulli_",
    "exponential_",
    "_foreach_zero_",
    "_foreach_copy_",
}
"""Which write to a tensor without reading what it holds."""

_CHOOSES = {"topk", "sort", "max", "min", "kthvalue", "median", "nanmedian", "mode", "cummax"}
"""Whose second result says which of the floats of the first one."""


@dataclass(frozen=True)
class Operator:
    """What is the same for all calls of it.

    Attributes:
        name: without its overload and the namespace, if that is aten.
        is_view: it makes another view of what is there.
        writes: positions and names of the arguments that it writes to.
        random: it draws numbers.
        creates: it makes tensors that have no values yet.
        leaves_unwritten: what it makes has no values yet.
        chooses: its results say which of some floats.
        overwrites: what it writes to it does not read.
        collective: other ranks take part in it.
    """

    name: str
    is_view: bool
    writes: tuple[tuple[int, str], ...]
    random: bool
    creates: bool
    leaves_unwritten: bool
    chooses: bool
    overwrites: bool
    collective: bool

    def written(self, args: Any, kwargs: Any, out: Any) -> list[Tensor]:
        """Tensors on a card that a call has written."""
        found: list[Tensor] = []
        for at, name in self.writes:
            value = args[at] if at < len(args) else kwargs.get(name)
            found.extend(on_card(value))
        found.extend(on_card(out))
        return found


@cache
def operator(func: Any) -> Operator:
    """What is known of an operator of torch, by its overload."""
    schema = func._schema
    writes = tuple(
        (at, one.name)
        for at, one in enumerate(schema.arguments)
        if one.alias_info is not None and one.alias_info.is_write
    )
    aliases = [one.alias_info for one in schema.returns]
    name = schema.name.removeprefix("aten::")
    return Operator(
        name=name,
        is_view=not writes and any(one is not None and not one.is_write for one in aliases),
        writes=writes,
        random=torch.Tag.nondeterministic_seeded in func.tags,
        creates=name in _CREATES,
        leaves_unwritten=name in _CREATES | _LEAVES,
        chooses=name in _CHOOSES,
        overwrites=name in _OVERWRITES or all(one == "out" for _, one in writes),
        collective=name.startswith("c10d::"),
    )


def on_card(value: Any) -> Iterator[Tensor]:
    """Tensors of an argument, or of a result, that lie on a card."""
    if isinstance(value, Tensor):
        if _is_plain(value):
            yield value
    elif isinstance(value, (list, tuple)):
        for one in value:
            if isinstance(one, Tensor):
                if _is_plain(one):
                    yield one
            elif isinstance(one, (list, tuple)):
                yield from on_card(one)


def _is_plain(value: Tensor) -> bool:
    """Whether it lies on a card by itself, and is not what a subclass makes of others."""
    return value.is_cuda and type(value).__torch_dispatch__ is Tensor.__torch_dispatch__
