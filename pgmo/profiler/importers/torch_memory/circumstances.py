"""What a snapshot tells of the allocator around its events: settings, and pools of others."""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from pgmo.profiler.importers.checked_values import integer, printable, shown
from pgmo.units import format_bytes

_MOST_PARTS = 32  # of a nested setting; PyTorch's longest has a dozen
_MOST_TEXT = 200


def private_pools(segments: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """A note where graphs or `MemPool`s have segments of their own, which no model knows."""
    private = [one for one in segments if any((one.get("segment_pool_id") or ())[:2])]
    if not private:
        return {}
    held = format_bytes(sum(integer(one.get("total_size", 0), "a size") for one in private))
    count = f"{len(private)} segment{'s' if len(private) > 1 else ''}"
    told = f"{count} of {held} belong to graphs or pools; the model of PyTorch does not know these"
    return {"private pools": told}


def settings_of(found: Any) -> dict[str, str]:
    """Settings as text; nested ones in the form of `PYTORCH_CUDA_ALLOC_CONF`."""
    if not isinstance(found, dict):
        return {}
    return {_plain(name): _plain(value) for name, value in found.items()}


def _plain(value: Any) -> str:
    """A setting as text: its beginning, for a few bytes of a file may say a long one many times."""
    if isinstance(value, dict):
        parts = [f"{_part(key)}:{_part(own)}" for key, own in islice(value.items(), _MOST_PARTS)]
        return f"[{','.join(parts)}]"
    return _part(value)


def _part(value: Any) -> str:
    return printable(value[:_MOST_TEXT]) if isinstance(value, str) else shown(value)
