"""Settings of PyTorch's caching allocator, and the parser of their environment variable."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pgmo.errors import OptionError

MIB = 1 << 20
INTERVALS = 16
"""Number of size intervals for `roundup_power2_divisions`: below 2 MiB, below 4 MiB, ..."""

# Settings without effect on the model. They concern host or managed memory, locks, graph captures,
# the error of a failed request, or reserved address space.
_WITHOUT_EFFECT = re.compile(
    "pinned_.*|release_lock_on_.*|graph_capture_record_stream_reuse|use_uvm|backend:native|"
    "throw_on_cudamalloc_oom|expandable_segments_(?:reserve|reserve_by_class|handle_type)"
)


@dataclass(frozen=True)
class AllocatorSettings:
    """Configuration of the caching allocator. Source: the CUDA notes of PyTorch's documentation.

    Args:
        expandable_segments: whether segments reserve address space once and map memory as needed.
        roundup_power2_divisions: number of steps between two powers of two, for each of the 16
            intervals [1 MiB, 2 MiB), [2 MiB, 4 MiB), ...; the first also applies to smaller sizes.
            0 or 1 means multiples of 512 bytes. A single number applies to all intervals.
        max_split_size: bytes. Cached blocks of this size or more serve no smaller requests, and are
            split only in expandable segments. None = no limit.
        max_non_split_rounding: bytes by which an unsplit block may exceed a request; None =
            `large_segment_size`.
        garbage_collection_threshold: share of the memory limit above which blocks that have been
            cached for long are released; 0 = never. No effect without `memory_fraction`.
        memory_fraction: memory limit of the process, as a share of the card; None = no limit.
        large_segment_size: bytes reserved from the driver for requests above 1 and below 10 MiB.

    Raises:
        OptionError: when a value is out of range.
    """

    expandable_segments: bool = False
    roundup_power2_divisions: int | tuple[int, ...] = 0
    max_split_size: int | None = None
    max_non_split_rounding: int | None = None
    garbage_collection_threshold: float = 0.0
    memory_fraction: float | None = None
    large_segment_size: int = 20 * MIB

    def __post_init__(self) -> None:
        steps = self.roundup_power2_divisions
        given = (steps,) * INTERVALS if isinstance(steps, int) else tuple(steps)
        object.__setattr__(self, "roundup_power2_divisions", given)
        if len(given) != INTERVALS or any(n < 0 or n & (n - 1) for n in given):
            raise OptionError(
                f"roundup_power2_divisions is {steps}; give one power of two or {INTERVALS} of them"
            )
        for name in ("garbage_collection_threshold", "memory_fraction"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1:
                raise OptionError(f"{name} is {value}; it must be from 0 to 1")
        for name in ("max_split_size", "max_non_split_rounding"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise OptionError(f"{name} is {value}; it must be above 0 bytes, or None")
        if self.large_segment_size < 20 * MIB or self.large_segment_size % (2 * MIB):
            raise OptionError(
                f"large_segment_size is {self.large_segment_size}; it must be a multiple of 2 MiB "
                "from 20 MiB on"
            )

    @property
    def divisions(self) -> tuple[int, ...]:
        """Number of steps of each interval, shape (16,)."""
        steps = self.roundup_power2_divisions
        return (steps,) * INTERVALS if isinstance(steps, int) else steps

    @classmethod
    def from_text(cls, text: str) -> "AllocatorSettings":
        """Parse the text of `PYTORCH_ALLOC_CONF`.

        Args:
            text: settings in the form "key:value,key:[value,value]".

        Raises:
            OptionError: when the text cannot be parsed, or has a setting that is not modelled, such
                as another allocator.

        Example:
            >>> settings = AllocatorSettings.from_text("roundup_power2_divisions:[256:1,512:2,>:8]")
            >>> settings.divisions[7:11]
            (1, 1, 2, 8)
        """
        return cls(**dict(_from_pairs(text)))


def _from_pairs(text: str) -> Iterator[tuple[str, Any]]:
    text = "".join(text.split())
    for pair in re.findall(r"(?:\[[^]]*\]|[^,\[])+", text):
        name, colon, value = pair.partition(":")
        if not colon or not value:
            raise OptionError(f"cannot read {pair!r} as an allocator setting; write 'name:value'")
        if _WITHOUT_EFFECT.fullmatch(name) or _WITHOUT_EFFECT.fullmatch(pair):
            continue
        known = _known(name, value)
        if known is None:
            raise OptionError(
                f"pgmo does not model the allocator setting {pair!r}; leave this setting out to "
                "see what PyTorch's own caching allocator does"
            )
        yield known


def _known(name: str, value: str) -> tuple[str, Any] | None:
    """Return the field and value of one setting, or None if the setting is not modelled."""
    match name:
        case "expandable_segments":
            return name, _parse_bool(name, value)
        case "roundup_power2_divisions" if value.startswith("["):
            return name, _divisions(value.strip("[]"))
        case "roundup_power2_divisions":
            return name, int(_number(name, value))
        case "max_split_size_mb" | "large_segment_size_mb":
            return name.removesuffix("_mb"), int(_number(name, value)) * MIB
        case "max_non_split_rounding_mb":
            return "max_non_split_rounding", int(_number(name, value)) * MIB
        case "garbage_collection_threshold":
            return name, _number(name, value)
        case "per_process_memory_fraction":
            return "memory_fraction", _number(name, value)
    return None


def _divisions(items: str) -> tuple[int, ...]:
    """Parse 'MiB:steps' items. The first item also applies to smaller sizes, '>' to larger."""
    steps = [0] * INTERVALS
    last = -1
    for item in items.split(","):
        key, _, value = item.partition(":")
        count = int(_number("roundup_power2_divisions", value))
        if key == ">":
            steps[last + 1 :] = [count] * (INTERVALS - last - 1)
            continue
        megabytes = int(_number("roundup_power2_divisions", key))
        if megabytes <= 0 or megabytes & (megabytes - 1):
            raise OptionError(
                f"roundup_power2_divisions has an interval at {megabytes} MiB; write powers of two"
            )
        index = min(megabytes.bit_length() - 1, INTERVALS - 1)
        if last < 0:
            steps[:index] = [count] * index
        steps[index] = count
        last = index
    return tuple(steps)


def _parse_bool(name: str, value: str) -> bool:
    if value not in ("True", "False"):
        raise OptionError(f"{name} is {value!r}; write True or False")
    return value == "True"


def _number(name: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise OptionError(f"{name} is {value!r}; write a number")
    return number
