"""Native model of PyTorch's CUDA caching allocator, configured with `AllocatorSettings`."""

from pgmo import _core
from pgmo.errors import OptionError
from pgmo.profiler.caching.settings import AllocatorSettings


def native_allocator(
    settings: AllocatorSettings | None = None,
    capacity: int | None = None,
    *,
    card: int | None = None,
) -> _core.ModelledAllocator:
    """Create the native model (`csrc/baseline`). Sessions use the same model in running programs.

    Args:
        settings: configuration of the allocator; None = PyTorch's defaults.
        capacity: bytes of the card that the allocator can use; None = no limit.
        card: bytes of the whole card; None = `capacity`. The program's own memory limit and the
            address space of expandable segments are fractions of the whole card.

    Raises:
        OptionError: when the capacity is not above 0.
    """
    if capacity is not None and capacity <= 0:
        raise OptionError(f"capacity is {capacity} bytes; it must be above 0, or None")
    settings = settings or AllocatorSettings()
    made = _core.ModelledAllocator(
        expandable_segments=settings.expandable_segments,
        roundup_power2_divisions=settings.divisions,
        max_split_size=settings.max_split_size or 0,
        max_non_split_rounding=settings.max_non_split_rounding or settings.large_segment_size,
        garbage_collection_threshold=settings.garbage_collection_threshold,
        large_segment_size=settings.large_segment_size,
        capacity=capacity or 0,
        card=card or capacity or 0,
    )
    if settings.memory_fraction is not None:
        made.set_fraction(settings.memory_fraction)
    return made
