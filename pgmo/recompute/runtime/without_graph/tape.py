"""The operators of a region, noted as they run, so that they can be run again without its code.

    region     y = relu(conv(x, w));  y.add_(1)
    tape       0 conv  given x, w          -> storage a
               1 relu  a after 1 writer    -> storage b
               2 add_  b after 1 writer       writes b
    saved      conv's x and w as they are; relu's result as "b after 1 writer"

A storage that the region made is known by its number and by how many operators have written to it;
a view is its place in a storage. Everything else is held.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from pgmo.error_frames import clears_dispatch, clears_frames
from pgmo.recompute.capture.compat import fakes, flatten, storage_key, unflatten, version_of

_NORMALISATIONS = ("aten.native_batch_norm", "aten.cudnn_batch_norm", "aten.miopen_batch_norm")
"""They write their arguments 3 and 4 in training without saying so, and do not read them then."""


_MODIFIED = (
    "one of the variables needed for gradient computation has been modified by an inplace "
    "operation in or after a region marked with pgmo.recompute.forget()"
)


@dataclass(frozen=True, slots=True)
class _Place:
    """A tensor in a storage that the region made."""

    storage: int
    writers: int
    dtype: torch.dtype
    offset: int
    size: torch.Size
    stride: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Given:
    """A tensor that is there anyway, and how often it had been written if known."""

    tensor: Tensor
    version: int | None


@dataclass(slots=True)
class _Storage:
    """A storage that the region made: the calls that write it; itself if it is to be held."""

    writers: list[int] = field(default_factory=list)
    held: torch.UntypedStorage | None = None


@dataclass(frozen=True, slots=True)
class _Call:
    function: Callable[..., Any]
    leaves: list[Any]
    spec: Any
    made: list[int | None]  # the storage of each tensor in its result, if it is a new one


@clears_dispatch
class Tape(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes operators while it is entered; hooks for the tensors that they save."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._calls: list[_Call] = []
        self._storages: list[_Storage] = []
        self._number: dict[int, int] = {}  # of a live storage that the region made
        self._packed: list[_Place] = []
        self._again: dict[int, Tensor] = {}  # by index into _packed

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs an operator and notes it, unless it only makes views."""
        leaves, spec = flatten((args, kwargs or {}))
        noted = [self._note(leaf) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        result = func(*args, **(kwargs or {}))
        written = _written(func, args, kwargs or {})
        made: list[int | None] = []
        for one in fakes(result):
            key = storage_key(one)
            old = any(key == storage_key(given) for given in fakes((args, kwargs)))
            made.append(None if old else self._new(key))
        touched = {self._number.get(storage_key(one)) for one in written}
        touched.discard(None)
        if not touched and all(number is None for number in made):
            return result
        for number in {*touched, *made} - {None}:
            assert number is not None
            self._storages[number].writers.append(len(self._calls))
        self._calls.append(_Call(func, noted, spec, made))
        if torch.Tag.nondeterministic_seeded in getattr(func, "tags", ()):
            for one in (*fakes(result), *written):
                number = self._number.get(storage_key(one))
                if number is not None:
                    self._storages[number].held = one.untyped_storage()
        return result

    def _new(self, key: int) -> int:
        self._number[key] = len(self._storages)
        self._storages.append(_Storage())
        return self._number[key]

    def _note(self, tensor: Tensor) -> _Place | _Given:
        number = self._number.get(storage_key(tensor))
        if number is None:
            return _Given(tensor, version_of(tensor))
        if self._storages[number].held is not None:
            if tensor.is_leaf:
                return _Given(tensor, version_of(tensor))
            # Without what computed it, which holds the tape; below autograd such a tensor counts
            # versions of its own.
            return _Given(tensor.detach(), None)
        return _Place(
            number,
            len(self._storages[number].writers),
            tensor.dtype,
            int(tensor.storage_offset()),
            tensor.size(),
            tensor.stride(),
        )

    @clears_frames
    def pack(self, tensor: Tensor) -> Any:
        """What autograd keeps instead of a tensor."""
        if type(tensor) not in (Tensor, torch.nn.Parameter) or tensor.layout != torch.strided:
            return tensor
        place = self._note(tensor)
        if isinstance(place, _Given):
            kept = tensor if tensor.is_leaf else tensor.detach()
            return _Given(kept, version_of(tensor))
        self._packed.append(place)
        return len(self._packed) - 1

    @clears_frames
    def unpack(self, packed: Any) -> Tensor:
        """The tensor again; the first time, all that were packed are computed."""
        if isinstance(packed, Tensor):
            return packed
        if isinstance(packed, _Given):
            _check([packed])  # autograd leaves that to who has packed it
            return packed.tensor
        if packed not in self._again:
            self._again = self._replay()
        return self._again.pop(packed)

    def _replay(self) -> dict[int, Tensor]:
        wanted = self._wanted()
        storages: dict[int, torch.UntypedStorage] = {
            number: one.held for number, one in enumerate(self._storages) if one.held is not None
        }
        found: dict[int, Tensor] = {}
        with torch.no_grad(), _no_autocast():
            for index in sorted(wanted):
                call = self._calls[index]
                leaves = [_real(leaf, storages) for leaf in call.leaves]
                if not _is_normalisation(call.function):
                    _check(call.leaves)
                arguments, keywords = unflatten(leaves, call.spec)
                arguments = _spared(call.function, arguments)
                result = call.function(*arguments, **keywords)
                for one, number in zip(fakes(result), call.made, strict=True):
                    if number is not None and self._storages[number].held is None:
                        storages[number] = one.untyped_storage()
            for position, place in enumerate(self._packed):
                if len(self._storages[place.storage].writers) != place.writers:
                    raise RuntimeError(_MODIFIED)
                found[position] = _view(place, storages)
        return found

    def _wanted(self) -> set[int]:
        """The calls without which a packed tensor cannot be made."""
        wanted: set[int] = set()
        stack = [call for place in self._packed for call in self._storages[place.storage].writers]
        while stack:
            index = stack.pop()
            if index in wanted:
                continue
            wanted.add(index)
            for leaf in self._calls[index].leaves:
                if isinstance(leaf, _Place) and self._storages[leaf.storage].held is None:
                    stack += self._storages[leaf.storage].writers[: leaf.writers]
        return wanted


def _real(leaf: Any, storages: dict[int, torch.UntypedStorage]) -> Any:
    if isinstance(leaf, _Place):
        return _view(leaf, storages)
    return leaf.tensor if isinstance(leaf, _Given) else leaf


def _check(leaves: list[Any]) -> None:
    for leaf in leaves:
        if isinstance(leaf, _Given) and leaf.version not in (None, version_of(leaf.tensor)):
            raise RuntimeError(_MODIFIED)


def _is_normalisation(function: Any) -> bool:
    return str(getattr(function, "_overloadpacket", "")) in _NORMALISATIONS


def _written(function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> list[Tensor]:
    schema = getattr(function, "_schema", None)
    found = []
    for position, one in enumerate(schema.arguments if schema is not None else ()):
        if one.alias_info is not None and one.alias_info.is_write:
            given = arguments[position] if position < len(arguments) else keywords.get(one.name)
            found += fakes(given)
    return found


def _spared(function: Any, arguments: Any) -> Any:
    """Arguments of which nothing outside is written: copies of running statistics."""
    if not _is_normalisation(function):
        return arguments
    copies = [one.clone() if isinstance(one, Tensor) else one for one in arguments[3:5]]
    return (*arguments[:3], *copies, *arguments[5:])


def _view(place: _Place, storages: dict[int, torch.UntypedStorage]) -> Tensor:
    storage = storages[place.storage]
    empty = torch.empty(0, dtype=place.dtype, device=storage.device)
    return empty.set_(storage, place.offset, place.size, place.stride)


class _no_autocast:  # noqa: N801
    """Casts were noted as operators of their own."""

    def __enter__(self) -> None:
        self._kinds = [kind for kind in ("cpu", "cuda") if torch.is_autocast_enabled(kind)]
        for kind in self._kinds:
            torch.set_autocast_enabled(kind, False)

    def __exit__(self, *_error: object) -> None:
        for kind in self._kinds:
            torch.set_autocast_enabled(kind, True)
