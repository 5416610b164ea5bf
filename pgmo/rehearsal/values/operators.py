"""Properties of operators, derived from their schemas, and replacement of kernels."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

CREATES = {
    "empty",
    "empty_like",
    "empty_strided",
    "empty_permuted",
    "new_empty",
    "new_empty_strided",
}
"""Operators that create tensors without values."""

KEEPS = {"resize_", "resize_as_", "set_", "record_stream"}
"""Operators that write no values, although their schemas say that they write to a tensor. Known
storages stay known."""

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
"""Operators that write to a tensor without reading it."""

CHOOSES = {"topk", "sort", "max", "min", "kthvalue", "median", "nanmedian", "mode", "cummax"}
"""Operators that choose elements by value, and return their indices or the elements."""


@dataclass(frozen=True)
class Operator:
    """Properties that all calls of an operator share.

    Attributes:
        name: name without the overload, and without the namespace if it is aten.
        is_view: whether it returns a view.
        writes: positions and names of the arguments that it writes to.
        random: whether it draws random numbers.
        overwrites: whether it reads no tensor that it writes to.
    """

    name: str
    is_view: bool
    writes: tuple[tuple[int, str], ...]
    random: bool
    overwrites: bool

    def written(self, args: Any, kwargs: Any, out: Any) -> list[Tensor]:
        """Return the tensors on a card that a call has written."""
        found: list[Tensor] = []
        for at, name in self.writes:
            value = args[at] if at < len(args) else kwargs.get(name)
            found.extend(on_card(value))
        found.extend(on_card(out))
        return found


@cache
def operator(func: Any) -> Operator:
    """Return the properties of a torch operator overload."""
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
        overwrites=name in _OVERWRITES or all(one == "out" for _, one in writes),
    )


@contextmanager
def replacing_kernels() -> Iterator[Any]:
    """Yield a `torch.library.Library` that replaces CUDA kernels, without PyTorch's warnings."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="(?s).*Overriding a previously registered kernel")
        yield torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]


def on_card(value: Any) -> Iterator[Tensor]:
    """Yield the tensors of an argument or a result on a card, except those of tensor subclasses."""
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
    """Return whether a tensor is on a card and is not a tensor subclass with its own dispatch."""
    return value.is_cuda and type(value).__torch_dispatch__ is Tensor.__torch_dispatch__
