"""Blocks of device memory, and the pools in which the caching allocator keeps free ones."""

from bisect import bisect_left, insort
from collections.abc import Iterator


class AddressSpace:
    """A range reserved for an expandable segment; memory is mapped into it page by page.

    Args:
        address: first byte.
        size: bytes reserved, a multiple of `page`.
        page: bytes of one mapping.
    """

    __slots__ = ("address", "page", "size")

    def __init__(self, address: int, size: int, page: int) -> None:
        self.address = address
        self.size = size
        self.page = page


class Block:
    """A stretch of a segment: in use, free, or address space without memory.

    The blocks of a segment are a list linked in both directions, in the order of their addresses:

        | in use | free | in use | free        |      a segment
        | in use | free | in use | not mapped ...     an expandable one

    `busy` is true until the block may be used again, `born` the age of its pool when it was freed.
    """

    __slots__ = (
        "address",
        "born",
        "busy",
        "following",
        "mapped",
        "pool",
        "preceding",
        "size",
        "space",
    )

    def __init__(
        self,
        pool: "BlockPool",
        address: int,
        size: int,
        space: AddressSpace | None = None,
        mapped: bool = True,
    ) -> None:
        self.pool = pool
        self.address = address
        self.size = size
        self.space = space
        self.mapped = mapped
        self.busy = False
        self.born = 0
        self.preceding: Block | None = None
        self.following: Block | None = None

    @property
    def whole(self) -> bool:
        """Whether the block is all of its segment."""
        return self.preceding is None and self.following is None

    def insert_after(self, before: "Block | None", after: "Block | None") -> None:
        """Links the block between two neighbours."""
        self.preceding, self.following = before, after
        if before is not None:
            before.following = self
        if after is not None:
            after.preceding = self


Key = tuple[int, int, Block]


class BlockPool:
    """The free blocks of one stream, for requests up to 1 MiB (`small`) or above.

    `free` is sorted by size, then address: the first one that is large enough is the best fit.
    `unmapped` is sorted by address.
    """

    __slots__ = ("free", "small", "stream", "unmapped")

    def __init__(self, stream: int, small: bool) -> None:
        self.stream = stream
        self.small = small
        self.free: list[Key] = []
        self.unmapped: list[tuple[int, Block]] = []

    def add(self, block: Block) -> None:
        """Keeps a free block."""
        insort(self.free, (block.size, block.address, block))

    def remove(self, block: Block) -> None:
        """Forgets a free block; it must be there."""
        del self.free[bisect_left(self.free, (block.size, block.address))]

    def at_least(self, size: int) -> int:
        """Index in `free` of the best fit for a number of bytes."""
        return bisect_left(self.free, (size,))

    def add_unmapped(self, block: Block) -> None:
        """Keeps address space that has no memory."""
        insort(self.unmapped, (block.address, block))

    def remove_unmapped(self, block: Block) -> None:
        """Forgets address space that has no memory; it must be there."""
        del self.unmapped[bisect_left(self.unmapped, (block.address,))]

    def blocks(self) -> Iterator[Block]:
        """The free blocks, as they are now."""
        return iter([block for _, _, block in self.free])
