"""Moves blocks that are alive between two iterations, so that nothing is in the way of an arena.

    before   [S..S.G....S]  [G.......S..]  [..G...S.]     segments pinned by what lives long
    after    [SSSSSS]  [GGG|            arena            ]

S: optimizer state and gradients that are never dropped. Left where they were born, between
gradients and activations, they pin half-empty segments and eat the whole gain of a plan. They move
into regions of their own, piece by piece, so that there is no second copy of them all.

G: blocks that the next iteration frees, most of all gradients. They have slots in the arena; but
as long as they live elsewhere, they and the arena are held at once. They go to the host, and from
there into their slots.

When in doubt a block stays where it is, and the summary says so. docs/design.md, section 5.4, has
the reasons; the second idea follows from wrapping lifetimes (docs/glossary.md).
"""

from collections import Counter
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pgmo.allocator.adapters.adapter import Adapter
from pgmo.allocator.adapters.storage import StorageMover
from pgmo.allocator.adapters.torch_tensors import Owned, Role, find_storages, state_exists
from pgmo.errors import AdapterError
from pgmo.units import format_bytes

LIVING = np.dtype(
    [
        ("address", "u8"),
        ("bytes", "i8"),
        ("block", "u4"),
        ("plan", "u4"),
        ("request", "u4"),
        ("kind", "u4"),
    ]
)
"""A living block as the engine tells it; 2^32 - 1 stands for "none"."""

FOREIGN, SLOT, LATE, REGION = range(4)
"""Values of `kind`: the framework's, in its slot, in a slot past its end, in a region."""

_NO_ROW = 2**32 - 1
"""In the place of a row: no plan has that many."""

_PIECE = 64 << 20
"""Bytes that are moved at a time, at least a sixteenth of all: what is held twice meanwhile."""

_WORTH_IT = 1 << 20
"""Long-lived bytes below which nothing is moved, and what stays is not worth a word."""

_NOT_MOVED, _MUCH = "parameters and other tensors", 64 << 20
"""What is never moved, by design; and bytes of it from which on that is worth a word."""

_HOST_SHARE = 0.5
"""Share of the host's available memory that gradients may take for a moment."""


@dataclass
class Parked:
    """Storages whose bytes are in the host's memory; their rows in the plan."""

    items: list[tuple[Owned, NDArray[np.uint8], int]] = field(default_factory=list)

    def forget_rows(self) -> None:
        """The plan that they belong to is not going to be used."""
        self.items = [(owned, host, _NO_ROW) for owned, host, _ in self.items]


class Relocation:
    """Moves what is in the way, on one device.

    Args:
        framework: the device's adapter.
        mover: moves a storage's memory there.
        captured: whether somebody may hold addresses that cannot be found; called before each move.

    Example:
        >>> relocation = torch_cuda(0).relocation()  # doctest: +SKIP
    """

    def __init__(self, adapter: Adapter, mover: StorageMover, captured: Callable[[], bool]) -> None:
        self._adapter = adapter
        self._engine = adapter.engine
        self._mover = mover
        self._captured = captured
        self._gathered = False
        self.moved = 0
        self.stayed: Counter[str] = Counter()

    def clear_the_way(self, rows: Mapping[int, int]) -> Parked:
        """Parks the blocks that have slots, and moves the long-lived ones into regions.

        Args:
            rows: for each address of a block that the next iteration frees its row in the plan.

        Raises:
            AdapterError: when the adapter is not installed.
        """
        self.stayed.clear()
        parked = Parked()
        if self._captured():
            self.stayed["captured graphs, or allocation pools, may hold addresses"] = 0
            return parked
        self._mover.synchronize()
        living = self._engine.living()
        movable = living["bytes"][living["kind"] != REGION].sum()
        # To look through millions of Python's objects takes a while.
        worth_it = len(rows) > 0 or movable >= _WORTH_IT
        storages = find_storages(self._mover, self._adapter.device) if worth_it else {}
        self._park(storages, {**self._elsewhere(living, rows), **rows}, parked)
        self._adapter.empty_cache()
        aside = {owned.view.data for owned, _, _ in parked.items}
        self._gather(self._long_lived(storages, living, rows.keys() | aside))
        self._gathered = True
        return parked

    def settle(self, parked: Parked) -> None:
        """Brings parked blocks back: into their slots, or to the framework where that cannot be.

        Raises:
            AdapterError: when a block has no memory anywhere; others have been brought back, and
                what remains in `parked` is to be tried again.
        """
        failure = ""  # not the error itself: it would keep this frame, and so the tensors
        items, parked.items = parked.items, []
        for owned, host, row in items:
            address = self._engine.resettle(row, owned.view.bytes)
            try:
                self._mover.unpark(owned.view.storage, host.ctypes.data, address or None)
            except AdapterError as error:
                failure = str(error)
                parked.items.append((owned, host, row))
        if failure:
            raise AdapterError(failure)

    def state_exists(self) -> bool:
        """Whether optimizer state is there already, so that the first iteration bears none."""
        return state_exists(self._adapter.device)

    @property
    def note(self) -> str:
        """What was moved and what stayed, in plain words; "" when there is nothing to say."""
        parts = []
        if self.moved:
            parts.append(f"{format_bytes(self.moved)} of long-lived blocks were moved together")
        stayed = [
            f"{format_bytes(size)} stayed where they were: {why}" if size else f"none moved: {why}"
            for why, size in self.stayed.items()
            if not 0 < size < (_MUCH if why == _NOT_MOVED else _WORTH_IT)
        ]
        return "; ".join(parts + stayed)

    def _elsewhere(self, living: NDArray[np.void], rows: Mapping[int, int]) -> dict[int, int]:
        """Blocks in an arena that have no place in the plan: gradients of a rare structure."""
        inside = living[(living["kind"] == SLOT) | (living["kind"] == LATE)]
        return {int(address): _NO_ROW for address in inside["address"] if int(address) not in rows}

    def _park(self, storages: Mapping[int, Owned], rows: Mapping[int, int], out: Parked) -> None:
        room = int(_HOST_SHARE * _available_memory())
        for address, row in sorted(rows.items()):
            owned = storages.get(address)
            if owned is None or owned.obstacle or owned.view.bytes > room:
                continue
            if owned.role is not Role.GRADIENT:
                continue  # state has regions; an array of another library's may refer to others
            host = np.empty(owned.view.bytes, np.uint8)
            self._mover.park(owned.view.storage, host.ctypes.data)
            out.items.append((owned, host, row))
            room -= owned.view.bytes

    def _long_lived(
        self, storages: Mapping[int, Owned], living: NDArray[np.void], planned: Set[int]
    ) -> list[Owned]:
        """What lives on and may move, in the order of addresses: segments empty one by one.

        Args:
            storages: by their addresses.
            living: all blocks.
            planned: addresses of those that have slots, or were parked.
        """
        found = []
        for block in np.sort(living[living["kind"] != REGION], order="address"):
            address, size = int(block["address"]), int(block["bytes"])
            owned = storages.get(address)
            has_place = address in planned or block["kind"] == SLOT
            if has_place and (owned is None or owned.role is not Role.STATE):
                continue
            if owned is None:
                self.stayed["not the memory of a tensor of Python's (workspaces of libraries)"] += (
                    size
                )
            elif owned.role is Role.OTHER:
                self.stayed[_NOT_MOVED] += size
            elif owned.obstacle:
                self.stayed[owned.obstacle] += size
            elif owned.role is Role.STRANGE_STATE:
                self.stayed["state of an optimizer that may keep addresses"] += size
            elif owned.role is Role.GRADIENT and self._gathered:
                continue  # of an iteration that no plan has: the next one frees it
            else:
                found.append(owned)
        return found

    def _gather(self, blocks: list[Owned]) -> None:
        alignment = self._adapter.alignment
        sizes = [-(-one.view.bytes // alignment) * alignment for one in blocks]
        if sum(sizes) < _WORTH_IT:
            return
        piece = max(_PIECE, sum(sizes) // 16)
        begin = 0
        while begin < len(blocks):
            end, total = begin, 0
            while end < len(blocks) and (end == begin or total + sizes[end] <= piece):
                total += sizes[end]
                end += 1
            try:
                self._move(blocks[begin:end], sizes[begin:end])
            except AdapterError as error:
                rest = sum(sizes[begin:])
                self.stayed[f"there was no memory to move them ({in_short(error)})"] += rest
                return
            self._adapter.empty_cache()
            begin = end

    def _move(self, blocks: list[Owned], sizes: list[int]) -> None:
        memory = self._adapter.take_region(sum(sizes))
        region = self._engine.add_region(memory.base, memory.bytes, *memory.owner)
        try:
            offset = 0
            for owned, size in zip(blocks, sizes, strict=True):
                address = self._engine.place_in_region(region, offset, owned.view.bytes)
                self._mover.move(owned.view.storage, address)
                self.moved += owned.view.bytes
                offset += size
        finally:
            self._engine.close_region(region)


def in_short(error: AdapterError) -> str:
    """The first sentence of an error's message: frameworks add whole reports of their memory.

    Example:
        >>> in_short(AdapterError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has"))
        'CUDA out of memory'
    """
    first, *_ = str(error).split("\n", 1)[0].split(". ", 1)
    return first.rstrip(".:")


def _available_memory() -> int:
    """Bytes that the host can spare, as far as the system tells."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    except OSError:
        pass
    return 0
