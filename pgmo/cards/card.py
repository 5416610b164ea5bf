"""One card, as a value."""

from dataclasses import dataclass, field

from pgmo.units import format_bytes


@dataclass(frozen=True)
class Card:
    """A graphics card, or a part of one, as far as memory and time depend on it.

    Attributes:
        name: what it is called here, such as "RTX 4090".
        memory: bytes on the label.
        usable: bytes that CUDA reports in total. A program's context comes out of them.
        capability: compute capability, such as (8, 9).
        multiprocessors: how many it has.
        bandwidth: of its memory, in bytes a second; 0.0 where it is not known.
        flops: peak floating-point operations a second by type ("float32", "tf32", "float16",
            "bfloat16"), dense, accumulated in float32. What it has no hardware for is missing.
        source: the maker's page that says so.
        usable_source: where the usable bytes come from; "" where the size was asked for.

    Example:
        >>> Card("16 GiB", 16 << 30, 16 << 30, (8, 0), 108)
        Card('16 GiB', 16.0 GiB usable)
    """

    name: str
    memory: int
    usable: int
    capability: tuple[int, int]
    multiprocessors: int
    bandwidth: float = 0.0
    flops: dict[str, float] = field(default_factory=dict, hash=False)
    source: str = ""
    usable_source: str = ""

    @property
    def anonymous(self) -> bool:
        """Whether it is a size and nothing else, so that nothing can be said of time on it."""
        return not self.bandwidth

    def __repr__(self) -> str:
        return f"Card({self.name!r}, {format_bytes(self.usable)} usable)"
