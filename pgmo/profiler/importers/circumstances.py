"""What a snapshot tells of the allocator around its events: settings, and pools of others."""

from collections.abc import Mapping, Sequence
from typing import Any

from pgmo.units import format_bytes


def private_pools(segments: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """A note where graphs or `MemPool`s have segments of their own, which no model knows."""
    private = [segment for segment in segments if any(segment.get("segment_pool_id") or ())]
    if not private:
        return {}
    held = format_bytes(sum(int(segment.get("total_size", 0)) for segment in private))
    count = f"{len(private)} segment{'s' if len(private) > 1 else ''}"
    told = f"{count} of {held} belong to graphs or pools; the model of PyTorch does not know these"
    return {"private pools": told}


def settings_of(found: Any) -> dict[str, str]:
    """Settings as text; nested ones in the form of `PYTORCH_CUDA_ALLOC_CONF`."""
    if not isinstance(found, dict):
        return {}
    return {
        str(name): "[" + ",".join(f"{key}:{own}" for key, own in value.items()) + "]"
        if isinstance(value, dict)
        else str(value)
        for name, value in found.items()
    }
