"""Values of tensors that Python code reads: seen once, assumed by a capture, checked in each step.

    observed    forward runs on the tensors themselves    mask.all().item() gave True, at line 369
    captured    it runs on tensors without contents       the same question is answered with True
    each step   the graph computes mask.all()             if not True, nothing was written yet,
                                                          and the call is captured for its values

What takes as many elements as a mask has is read, too: a captured graph has sizes, and asks whether
they are still those.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils._python_dispatch import TorchDispatchMode

from pgmo.error_frames import clears_dispatch
from pgmo.errors import GraphError
from pgmo.recompute.capture.compat import fakes, node_of, storage_key
from pgmo.recompute.frozen.places import is_foreign, line

EXPECTED = "pgmo_expected"
"""Key of a node's `meta`: what the capture assumes that it is, and the line that reads it."""

_aten = torch.ops.aten
_SIZED = {
    _aten.nonzero.default: 0,
    _aten.masked_select.default: 1,
    _aten.index.Tensor: 1,
    _aten.repeat_interleave.Tensor: 0,
}
"""Operators whose results have as many rows as values say, and the argument with the values."""


class DiffersError(Exception):
    """A value is another one than the capture assumes; nothing was written yet."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One value that was read.

    Args:
        operator: that read it.
        shape: of the tensor that was asked.
        value: a number, or of operators in `_SIZED` the number of rows.
        where: the line that read it.
    """

    operator: str
    shape: tuple[int, ...]
    value: Any
    where: str


@clears_dispatch
class Observing(TorchDispatchMode):
    """Notes the values that are read while a forward pass runs on tensors with contents.

    Args:
        protected: tensors that may not be written meanwhile.
    """

    def __init__(self, protected: list[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found: list[Observation] = []
        self._protected = {storage_key(one) for one in protected}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs an operator; notes what it says."""
        for one in _written(func, args):
            if storage_key(one) in self._protected:
                raise GraphError(
                    f"the forward pass reads values of tensors, and writes into a parameter, at "
                    f"{_caller()}: it cannot run once to see which"
                )
        result = func(*args, **(kwargs or {}))
        if func in (_aten._local_scalar_dense.default, _aten.equal.default):
            self._note(func, args, result)
        elif _has_size_of_values(func, args):
            self._note(func, args, _rows(func, args))
        return result

    def _note(self, func: Any, args: Any, value: Any) -> None:
        shape = tuple(_asked(func, args).shape)
        self.found.append(Observation(str(func), shape, value, _caller()))


@clears_dispatch
class Answering(TorchDispatchMode):
    """Answers with what was observed, and keeps what was asked, for the graph to compare.

    Attributes:
        kept: of each value a tensor that holds it, to be made a result of the graph.
    """

    def __init__(self, observed: list[Observation]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._observed = iter(observed)
        self.kept: list[Tensor] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs an operator, or answers in its place."""
        if func in (_aten._local_scalar_dense.default, _aten.equal.default):
            one = self._next(func, args)
            held = args[0] if func is _aten._local_scalar_dense.default else _are_equal(*args)
            self._keep(held.clone(), one.value, one.where)
            return one.value
        if _has_size_of_values(func, args):
            one = self._next(func, args)
            # Compared before anything relies on it.
            self._keep(_count(func, args), one.value, one.where)
            return _of_size(func, args, one.value)
        return func(*args, **(kwargs or {}))

    def _next(self, func: Any, args: Any) -> Observation:
        one = next(self._observed, None)
        if one is None or (one.operator, one.shape) != (str(func), tuple(_asked(func, args).shape)):
            raise GraphError(
                f"the forward pass reads other values when it is captured than when it runs, at "
                f"{_caller()}: it takes another way where it sees that it is traced"
            )
        return one

    def _keep(self, held: Tensor, value: object, where: str) -> None:
        node = node_of(held)
        if node is not None:
            node.meta[EXPECTED] = (value, where)
        self.kept.append(held)


@contextmanager
def reading_lists() -> Iterator[None]:
    """Inside, `Tensor.tolist` asks for one number after the other, as it does when captured."""
    original: Callable[..., Any] = Tensor.tolist

    def tolist(self: Tensor) -> Any:
        if self.dim() == 0:
            return self.item()
        return [tolist(one) for one in self]

    Tensor.tolist = tolist  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        if "tolist" in vars(Tensor):
            del Tensor.tolist
        if Tensor.tolist is not original:
            Tensor.tolist = original  # type: ignore[method-assign]


def add_checks(module: fx.GraphModule) -> int:
    """Makes a graph compare the values that its capture assumes, as soon as they are there.

    Returns:
        Their number.
    """
    marked = [node for node in module.graph.nodes if EXPECTED in node.meta]
    for node in marked:
        with module.graph.inserting_after(node):
            module.graph.call_function(compare, (node, *node.meta[EXPECTED]))
    return len(marked)


def compare(held: Tensor, expected: object, where: str) -> None:
    """Ends a step whose value is another one than its capture assumes.

    Raises:
        DiffersError: it is.
    """
    found = held.item()
    if repr(found) != repr(expected):  # so that nan is itself, and -0.0 not 0.0
        raise DiffersError(f"a value is {found!r} and was {expected!r} when the step was captured, "
                           f"which is read at {where}")  # fmt: skip


fx.node.has_side_effect(compare)


def _asked(func: Any, args: Any) -> Tensor:
    """The tensor whose values are read."""
    if func is _aten.index.Tensor:
        masks: list[Tensor] = [one for one in args[1] if one is not None and _is_mask(one)]
        if len(masks) > 1:  # each would have to be compared, and may be broadcast to another
            raise GraphError(f"a tensor is indexed by {len(masks)} masks at once, at {_caller()}")
        return masks[0]
    found: Tensor = args[_SIZED.get(func, 0)]
    return found


def _is_mask(tensor: Tensor) -> bool:
    return tensor.dtype in (torch.bool, torch.uint8)


def _has_size_of_values(func: Any, args: Any) -> bool:
    if func is _aten.index.Tensor:
        return any(one is not None and _is_mask(one) for one in args[1])
    return func in _SIZED


def _count(func: Any, args: Any) -> Tensor:
    asked = _asked(func, args)
    if func is _aten.repeat_interleave.Tensor:
        return asked.sum()
    if func is _aten.masked_select.default:
        _, asked = _broadcast(args[0], asked)
    return asked.count_nonzero()


def _rows(func: Any, args: Any) -> int:
    return int(_count(func, args).item())


def _of_size(func: Any, args: Any, rows: int) -> Tensor:
    """What an operator gives, by operators that are told the number of rows."""
    if func is _aten.nonzero.default:
        return _aten.nonzero_static.default(args[0], size=rows)  # type: ignore[no-any-return]
    if func is _aten.repeat_interleave.Tensor:
        return func(args[0], output_size=rows)  # type: ignore[no-any-return]
    if func is _aten.masked_select.default:
        values, mask = _broadcast(args[0], args[1])
        index = _aten.nonzero_static.default(mask, size=rows)
        return _aten.index.Tensor(values, list(index.unbind(1)))  # type: ignore[no-any-return]
    indices: list[Tensor | None] = []
    for one in args[1]:
        if one is not None and _is_mask(one):
            indices += _aten.nonzero_static.default(one, size=rows).unbind(1)
        else:
            indices.append(one)
    return func(args[0], indices)  # type: ignore[no-any-return]


def _broadcast(one: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    found: Any = torch.broadcast_tensors(one, other)  # type: ignore[no-untyped-call]
    return found[0], found[1]


def _are_equal(one: Tensor, other: Tensor) -> Tensor:
    if one.shape != other.shape:
        return torch.zeros((), dtype=torch.bool, device=one.device)
    return (one == other).all()


def _written(func: Any, args: Any) -> list[Tensor]:
    schema = getattr(func, "_schema", None)
    found: list[Tensor] = []
    for given, one in zip(args, schema.arguments if schema is not None else (), strict=False):
        if one.alias_info is not None and one.alias_info.is_write:
            found += fakes(given)
    return found


def _caller() -> str:
    """The innermost line of code that is neither PyTorch's nor of this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and not is_foreign(frame.f_code.co_filename):
        frame = frame.f_back
    return line(frame.f_code.co_filename, frame.f_lineno)
