"""A model of PyTorch's CUDA caching allocator: the same decisions, without a card.

Source of the rules: c10/cuda/CUDACachingAllocator.cpp of PyTorch 2.11, as it is documented there
and observed. Left out are private pools (CUDA graphs, `MemPool`) and memory of other processes.

    request -- round --> best fit of its stream's pool -- none --> take memory from the driver
                                |                                     |
                              split                   no room: give cached memory back, retry
"""

from pgmo.errors import OptionError
from pgmo.profiler.caching.pools import AddressSpace, Block, BlockPool
from pgmo.profiler.caching.settings import INTERVALS, MIB, AllocatorSettings
from pgmo.units import format_bytes

UNIT = 512
"""Bytes: sizes of blocks are multiples of it."""

SMALL_SIZE = 1 * MIB
SMALL_SEGMENT = 2 * MIB
OWN_SEGMENT = 10 * MIB
"""Bytes of a request from which on its segment is made for it alone."""

ROUND_LARGE = 2 * MIB
UNLIMITED = 1 << 62
UNBOUNDED_SPACE = 1 << 46

GRANULARITY = 2 * MIB
"""Bytes: addresses of segments are multiples of it."""

FIRST_ADDRESS = 1 << 45


class OutOfMemoryError(Exception):
    """No room for a request, even after all that is cached was given back."""


def rounded(size: int, divisions: tuple[int, ...]) -> int:
    """Bytes of the block that serves a request.

    Args:
        size: bytes requested.
        divisions: steps between powers of two for each interval, shape (16,).

    Example:
        >>> rounded(1000, (0,) * 16), rounded(1200 << 10, (4,) * 16) >> 10
        (1024, 1280)
    """
    if size < UNIT:
        return UNIT
    steps = divisions[min(max(0, size.bit_length() - 21), INTERVALS - 1)]
    if steps <= 1 or size <= UNIT * steps:
        return -(-size // UNIT) * UNIT
    floor = 1 << (size.bit_length() - 1)
    step = floor // steps
    return -(-size // step) * step


class CachingAllocator:
    """Segments, blocks and free lists of one device.

    Args:
        settings: how the allocator is configured.
        capacity: bytes of the card that the allocator can use; None = no limit.
        card: bytes of the whole card, `capacity` when left out: limits that the program sets
            itself and the address space of expandable segments are fractions of it.

    Raises:
        OptionError: when the capacity is not above 0.

    Attributes:
        reserved: bytes taken from the driver.
        active: bytes of blocks in use, or freed but not yet reusable.
        retries: how often cached memory was given back to serve a request.

    Example:
        >>> allocator = CachingAllocator()
        >>> block = allocator.malloc(3 << 20)
        >>> allocator.active >> 20, allocator.reserved >> 20
        (3, 20)
    """

    def __init__(
        self,
        settings: AllocatorSettings | None = None,
        capacity: int | None = None,
        *,
        card: int | None = None,
    ) -> None:
        if capacity is not None and capacity <= 0:
            raise OptionError(f"capacity is {capacity} bytes; it must be above 0, or None")
        self.settings = settings or AllocatorSettings()
        self._next_address = FIRST_ADDRESS
        self.reserved = self.active = self.retries = 0
        self._capacity = UNLIMITED if capacity is None else capacity
        card = card or capacity
        fraction = self.settings.memory_fraction
        limited = fraction is not None and card is not None
        self._allowed = int((fraction or 0) * (card or 0)) if limited else UNLIMITED
        threshold = self.settings.garbage_collection_threshold
        self._keep = int(threshold * self._allowed) if limited and threshold > 0 else None
        self._space = UNBOUNDED_SPACE if card is None else card + card // 8
        self._divisions = self.settings.divisions
        self._max_split = self.settings.max_split_size or UNLIMITED
        rounding = self.settings.max_non_split_rounding
        self._rounding = rounding or self.settings.large_segment_size
        self._expandable = self.settings.expandable_segments
        self._pools: dict[tuple[int, bool], BlockPool] = {}
        self._searches = {True: 0, False: 0}
        self._pending: dict[int, Block] = {}

    def malloc(self, size: int, stream: int = 0) -> Block:
        """Serves a request.

        Raises:
            OutOfMemoryError: when it cannot be served.
        """
        size = rounded(size, self._divisions)
        pool = self.pool(stream, size <= SMALL_SIZE)
        block = self._cached(pool, size)
        if block is None:
            if self._keep is not None:
                self._collect_garbage(self._keep)
            block = self._new(pool, size)
        if block is None and self._max_split < UNLIMITED and self._release_oversize(pool, size):
            block = self._new(pool, size)
        if block is None:
            self.retries += 1
            self.empty_cache()
            block = self._new(pool, size)
        if block is None:
            raise OutOfMemoryError(
                f"no room for {format_bytes(size)}: {format_bytes(self.reserved)} are reserved, "
                f"{format_bytes(self.active)} of them in use"
            )
        remaining = block.size - size
        if (
            remaining >= UNIT
            if pool.small or self._expandable
            else remaining > SMALL_SIZE and size < self._max_split
        ):
            self._split(block, size)
        block.busy = True
        self.active += block.size
        return block

    def free(self, block: Block) -> None:
        """Takes a block back; it can be used again at once, on its stream."""
        self._pending.pop(id(block), None)
        self.active -= block.size
        block.busy = False
        self._merge(block)
        self._keep_free(block)

    def defer(self, block: Block) -> None:
        """Takes a block back that is still in use on another stream, until `free` or a retry."""
        self._pending[id(block)] = block

    def is_pending(self, block: Block) -> bool:
        """Whether the block was given to `defer` and is not free yet."""
        return id(block) in self._pending

    def empty_cache(self) -> None:
        """Gives all memory back to the driver that is free: whole segments, and whole pages."""
        for block in list(self._pending.values()):
            self.free(block)
        for small in (False, True):
            for pool in [p for p in self._pools.values() if p.small is small]:
                for block in pool.blocks():
                    if block.space is not None:
                        self.unmap(block)
                    elif block.whole:
                        self.release(block)

    def pool(self, stream: int, small: bool) -> BlockPool:
        """The pool of a stream."""
        found = self._pools.get((stream, small))
        if found is None:
            found = self._pools[stream, small] = BlockPool(stream, small)
        return found

    def pools(self) -> list[BlockPool]:
        """All pools."""
        return list(self._pools.values())

    def add_segment(self, pool: BlockPool, size: int) -> Block:
        """Takes a segment from the driver; its one block is free, but not in the pool yet."""
        self.reserved += size
        return Block(pool, self._address(size), size)

    def _reserve(self, pool: BlockPool) -> Block:
        """Reserves address space for an expandable segment of the pool."""
        page = SMALL_SEGMENT if pool.small else self.settings.large_segment_size
        size = -(-self._space // page) * page
        where = self._address(size)
        block = Block(pool, where, size, AddressSpace(where, size, page), mapped=False)
        pool.add_unmapped(block)
        return block

    def _address(self, size: int) -> int:
        """Each segment lies after the one before: no more than that is known of real drivers."""
        address = self._next_address
        self._next_address += -(-size // GRANULARITY) * GRANULARITY
        return address

    def release(self, block: Block) -> None:
        """Gives a free segment back to the driver; it must be whole and in its pool."""
        self.reserved -= block.size
        block.pool.remove(block)

    def _cached(self, pool: BlockPool, size: int) -> Block | None:
        """Takes the best fit out of the pool."""
        if self._keep is not None:
            self._searches[pool.small] += 1
        free = pool.free
        index = pool.at_least(size)
        if index == len(free):
            return None
        block = free[index][2]
        if block.space is not None:
            # A free block before unmapped pages counts as large as it can become, so that the
            # growing end of a segment is used last.
            while index + 1 < len(free) and block.space is not None:
                other = free[index + 1][2]
                if _potential(other) >= _potential(block):
                    break
                block = other
                index += 1
        if (
            block.size >= self._max_split
            if size < self._max_split
            else (block.size >= size + self._rounding)
        ):
            return None
        del free[index]
        return block

    def _new(self, pool: BlockPool, size: int) -> Block | None:
        """Takes memory from the driver; the block is in no pool."""
        if size <= SMALL_SIZE:
            segment = SMALL_SEGMENT
        elif size < OWN_SEGMENT:
            segment = self.settings.large_segment_size
        else:
            segment = -(-size // ROUND_LARGE) * ROUND_LARGE
        if self.reserved + segment > self._allowed:
            return None
        if self._expandable:
            return self._grow(pool, size)
        if self.reserved + segment > self._capacity:
            return None
        return self.add_segment(pool, segment)

    def _grow(self, pool: BlockPool, size: int) -> Block | None:
        """Maps as much memory as is missing for a request, at the lowest address that has room."""
        block = self._room(pool, size)
        if not block.mapped and not self.map(block, min(block.size, size)):
            return None
        while block.size < size:
            following = block.following
            if following is None or not self.map(following, min(size - block.size, following.size)):
                return None
            block = following
        pool.remove(block)
        return block

    def _room(self, pool: BlockPool, size: int) -> Block:
        """The first of neighbouring blocks, free or unmapped, that have room for a request."""
        for _, block in pool.unmapped:
            before = block.preceding
            if before is not None and not before.busy:
                block = before
            found = 0
            part: Block | None = block
            while part is not None and not part.busy and found < size:
                found += part.size
                part = part.following
            if found >= size:
                return block
        return self._reserve(pool)

    def map(self, block: Block, size: int) -> bool:
        """Maps memory at the beginning of an unmapped block; merges it and keeps it as free."""
        space, pool = block.space, block.pool
        assert space is not None
        size = -(-size // space.page) * space.page
        if self.reserved + size > self._capacity:
            return False
        pool.remove_unmapped(block)
        block.mapped = True
        if size < block.size:
            rest = Block(pool, block.address + size, block.size - size, space, mapped=False)
            rest.insert_after(block, block.following)
            pool.add_unmapped(rest)
            block.size = size
        self.reserved += size
        self._merge(block)
        self._keep_free(block)
        return True

    def unmap(self, block: Block) -> None:
        """Unmaps the whole pages of a free block."""
        space, pool = block.space, block.pool
        assert space is not None
        end = block.address + block.size
        first = space.address + -(-(block.address - space.address) // space.page) * space.page
        last = space.address + (end - space.address) // space.page * space.page
        if first >= last:
            return
        pool.remove(block)
        if first > block.address:
            before = Block(pool, block.address, first - block.address, space)
            before.insert_after(block.preceding, block)
            self._keep_free(before)
        if end > last:
            after = Block(pool, last, end - last, space)
            after.insert_after(block, block.following)
            self._keep_free(after)
        block.address, block.size, block.mapped = first, last - first, False
        self.reserved -= block.size
        self._merge(block)
        if not block.whole:  # the range goes, too, once nothing is left in it
            pool.add_unmapped(block)

    def _split(self, block: Block, size: int) -> None:
        """Cuts a block to a size; what remains is free."""
        rest = Block(block.pool, block.address + size, block.size - size, block.space)
        rest.insert_after(block, block.following)
        block.size = size
        self._keep_free(rest)

    def _keep_free(self, block: Block) -> None:
        block.born = self._searches[block.pool.small]
        block.pool.add(block)

    def _merge(self, block: Block) -> None:
        """Joins a block with those of its neighbours that are free and mapped as it is."""
        before, after = block.preceding, block.following
        if before is not None and not before.busy and before.mapped is block.mapped:
            self._forget(before)
            block.address = before.address
            block.size += before.size
            block.insert_after(before.preceding, after)
        if after is not None and not after.busy and after.mapped is block.mapped:
            self._forget(after)
            block.size += after.size
            block.insert_after(block.preceding, after.following)

    def _forget(self, block: Block) -> None:
        if block.mapped:
            block.pool.remove(block)
        else:
            block.pool.remove_unmapped(block)

    def _release_oversize(self, pool: BlockPool, size: int) -> bool:
        """Gives back one cached block that is large enough, or several of the largest."""
        wanted = max(size, self._max_split)
        index = pool.at_least(wanted)
        if index < len(pool.free):
            self.release(pool.free[index][2])
            return True
        released = 0
        while released < wanted and pool.free and pool.free[-1][0] >= self._max_split:
            released += pool.free[-1][0]
            self.release(pool.free[-1][2])
        return released >= wanted

    def _collect_garbage(self, keep: int) -> None:
        """Gives back whole segments that were not used for longer than the average."""
        target = self.reserved - keep
        if target <= 0:
            return
        now = self._searches[False]
        large = [pool for pool in self._pools.values() if not pool.small]
        candidates = [b for pool in large for b in pool.blocks() if b.whole and b.space is None]
        age = sum(now - block.born for block in candidates)
        reclaimed = 0
        while reclaimed < target and candidates:
            average = age / len(candidates)
            old = [block for block in candidates if now - block.born >= average]
            if not old:
                return
            candidates = [block for block in candidates if now - block.born < average]
            for block in old:
                reclaimed += block.size
                age -= now - block.born
                self.release(block)


def _potential(block: Block) -> int:
    """Bytes that a block has, with those that can be mapped behind it."""
    after = block.following
    return block.size + (after.size if after is not None and not after.mapped else 0)
