"""One graphics card as a value."""

from dataclasses import dataclass, field

from pgmo.units import format_bytes


@dataclass(frozen=True)
class Card:
    """Graphics card, or a part of one, with the properties that determine memory and time.

    Attributes:
        name: name, such as "RTX 4090".
        memory: nominal bytes.
        usable: total bytes that CUDA reports. A program's context takes a part of them.
        capability: compute capability, such as (8, 9).
        multiprocessors: number of multiprocessors.
        bandwidth: bandwidth of its memory in bytes per second; 0.0 if unknown.
        flops: peak floating-point operations per second by type ("float32", "tf32", "float16",
            "bfloat16"), dense, accumulated in float32. Types without hardware support are missing.
        source: the manufacturer's page with these figures.
        usable_source: source of the usable bytes; "" if the user gave the size.
        integrated: whether it shares its memory with the host, so that the system and the process
            take a part of the usable bytes.

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
    integrated: bool = False

    @property
    def anonymous(self) -> bool:
        """Return whether only its size is known, so that times cannot be computed."""
        return not self.bandwidth

    def __repr__(self) -> str:
        return f"Card({self.name!r}, {format_bytes(self.usable)} usable)"
