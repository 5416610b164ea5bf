"""Births and deaths of storages, in the order in which an allocator would see them."""

import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pgmo.profiler.tag import Tag
from pgmo.profiler.trace import Event, Trace

_ALIGNMENT = 512
"""Made-up addresses are multiples of it, as real ones are."""


class Holds(Enum):
    """What a block is for. Most are activations, and are never said to be anything else."""

    PARAMETER = "parameters"
    GRADIENT = "gradients"
    STATE = "optimizer_state"
    ACTIVATION = "activations"
    WORKSPACE = "workspaces"


class Ledger:
    """Notes the blocks of one card.

    Storages are watched by weak references, so views of one count once and a block ends when the
    last of them does. Sizes are bytes as requested; whoever models an allocator rounds them.

    Attributes:
        tag: number of the origin of blocks that are noted from now on, -1 for none.
        allocated: bytes alive, in blocks of 512.
        most: the most of them so far.

    Example:
        >>> ledger = Ledger()
        >>> ledger.give(ledger.take(1 << 20))
        >>> ledger.trace(()).kind.tolist()
        [0, 2]
    """

    def __init__(self) -> None:
        self.tag = -1
        self.allocated = self.most = 0
        self._rows: list[tuple[int, int, int, int]] = []  # kind, address, size, tag
        self._next = _ALIGNMENT
        self._alive: dict[int, _Storage] = {}  # by the address of torch's own object
        self._holds: dict[int, Holds] = {}  # by address of the block
        self._heir: _Heir | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def born(self, tensors: Iterable[Any]) -> None:
        """Notes those of an operator's outputs that are not known yet, or have changed size."""
        for tensor in tensors:
            storage = tensor.untyped_storage()
            key = storage._cdata
            known = self._alive.get(key)
            size = storage.nbytes()
            if known is None:
                self._alive[key] = _Storage(storage, self, key, self._request(size), size)
            elif known.size != size:
                self._free(known.address, known.taken)
                known.address, known.size, known.taken = self._request(size), size, size

    def born_in(self, tensor: Any, size: int) -> None:
        """Notes an output in a block of another size: it was larger, and keeps its block."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        self._alive[key] = _Storage(
            storage, self, key, self._request(size), storage.nbytes(), taken=size
        )

    def elsewhere(self, tensors: Iterable[Any]) -> None:
        """Has tensors take nothing of the card, though they are said to be there."""
        for tensor in tensors:
            storage = tensor.untyped_storage()
            self._alive[storage._cdata] = _Storage(
                storage, self, storage._cdata, 0, storage.nbytes()
            )

    def take(self, size: int) -> tuple[int, int]:
        """Notes a temporary of an operator; `give` takes what this returns."""
        return self._request(size, Holds.WORKSPACE), size

    def give(self, *taken: tuple[int, int]) -> None:
        """Notes that temporaries are given back, in this order."""
        for address, size in taken:
            self._free(address, size)

    def permanent(self, size: int) -> None:
        """Notes a workspace that is never given back."""
        self._request(size, Holds.WORKSPACE)

    def may_inherit(self, heir: Any, given: Any) -> None:
        """Has a storage that was born last take the place of another, if that one dies next.

        That is how a sum looks that autograd writes into its first operand, unless it is watched.
        """
        new, old = self._alive[heir._cdata], self._alive.get(given._cdata)
        if old is None or old.size != new.size:
            return
        for row in range(len(self._rows) - 1, -1, -1):
            if self._rows[row][1] == new.address:
                self._heir = _Heir(len(self._rows), row, new, old.address)
                return

    def knows(self, storage: Any) -> bool:
        """Whether the storage is one of the card's that is alive."""
        return storage._cdata in self._alive

    def say(self, storage: Any, holds: Holds) -> None:
        """Says what a storage's block is for."""
        known = self._alive.get(storage._cdata)
        if known is not None and known.address:
            self._holds[known.address] = holds

    def mark(self) -> None:
        """An iteration begins."""
        self._rows.append((Event.MARK, 0, 0, -1))

    def empty_cache(self) -> None:
        """The program gives cached memory back."""
        self._rows.append((Event.SEGMENT_FREE, 0, 0, -1))

    def trace(self, tags: tuple[Tag, ...]) -> Trace:
        """All that was noted, as what a snapshot would hold of it."""
        rows = self._rows or [(int(Event.MARK), 0, 0, -1)]
        kind, address, size, tag = zip(*rows, strict=True)
        return Trace.from_columns(kind=kind, address=address, size=size, tag=tag, tags=tags)

    def categories(self) -> list[Holds]:
        """What each block is for, in the order in which they were requested."""
        return [
            self._holds.get(address, Holds.ACTIVATION)
            for kind, address, _, _ in self._rows
            if kind == Event.ALLOC
        ]

    def held(self) -> tuple[int, dict[Holds, int]]:
        """The most bytes alive at once in blocks of 512 bytes, and what they are for."""
        alive: dict[int, int] = {}
        total = peak = 0
        at = -1
        for row, (kind, address, size, _) in enumerate(self._rows):
            if kind == Event.ALLOC:
                alive[address] = -(-size // _ALIGNMENT) * _ALIGNMENT
                total += alive[address]
            elif kind == Event.FREE_COMPLETED:
                total -= alive.pop(address)
            if total > peak:
                peak, at = total, row
        alive.clear()
        for kind, address, size, _ in self._rows[: at + 1]:
            if kind == Event.ALLOC:
                alive[address] = -(-size // _ALIGNMENT) * _ALIGNMENT
            elif kind == Event.FREE_COMPLETED:
                del alive[address]
        kinds = dict.fromkeys(Holds, 0)
        for address, size in alive.items():
            kinds[self._holds.get(address, Holds.ACTIVATION)] += size
        return peak, kinds

    def _request(self, size: int, holds: Holds | None = None) -> int:
        if not size:
            return 0
        address = self._next
        self._next += -(-size // _ALIGNMENT) * _ALIGNMENT
        self._rows.append((Event.ALLOC, address, size, self.tag))
        self.allocated += self._next - address
        self.most = max(self.most, self.allocated)
        if holds is not None:
            self._holds[address] = holds
        return address

    def _free(self, address: int, size: int) -> None:
        if not address:
            return
        heir, self._heir = self._heir, None
        if heir is not None and heir.next == len(self._rows) and heir.address == address:
            del self._rows[heir.birth]
            self.allocated -= -(-size // _ALIGNMENT) * _ALIGNMENT
            heir.storage.address = address
            return
        self.allocated -= -(-size // _ALIGNMENT) * _ALIGNMENT
        self._rows.append((Event.FREE_COMPLETED, address, size, -1))

    def _died(self, key: int) -> None:
        known = self._alive.pop(key, None)
        if known is not None:
            self._free(known.address, known.taken)


class _Storage:
    """A storage that is alive, and where its block is; address 0 where it has none."""

    __slots__ = ("address", "size", "taken", "watch")

    def __init__(
        self,
        storage: Any,
        ledger: Ledger,
        key: int,
        address: int,
        size: int,
        *,
        taken: int | None = None,
    ) -> None:
        self.address, self.size = address, size
        self.taken = size if taken is None else taken
        self.watch = weakref.ref(storage, lambda _: ledger._died(key))


@dataclass(frozen=True)
class _Heir:
    """Who may take over a block: if that is freed at row `next`, row `birth` never was."""

    next: int
    birth: int
    storage: _Storage
    address: int
