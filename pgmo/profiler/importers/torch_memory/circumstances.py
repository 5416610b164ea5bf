"""Parts of a snapshot other than events: annotations, settings and private pools."""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from pgmo.profiler.importers.checked_values import MOST_TIME, integer, printable, shown
from pgmo.profiler.importers.torch_memory.odd_values import OddValues
from pgmo.profiler.trace import PrivateSegment
from pgmo.units import format_bytes

_MOST_PARTS = 32  # Entries of a nested setting; PyTorch's longest has a dozen.
_MOST_TEXT = 200


def annotations_of(found: Any, odd: OddValues) -> list[dict[str, Any]]:
    """Return the annotations with a valid name and time; count the others in `odd`."""
    if not isinstance(found, list | tuple):
        return []
    good = [one for one in found if _is_annotation(one)]
    if len(good) < len(found):
        what = "it is not a dictionary, or its name or its time is invalid"
        odd.add("annotation", what, len(found) - len(good))
    return good


def _is_annotation(one: Any) -> bool:
    if not isinstance(one, dict) or not isinstance(one.get("name", ""), str):
        return False
    time = one.get("time_us", 0)
    return type(time) is int and 0 <= time <= MOST_TIME


def private_segments(segments: Sequence[Mapping[str, Any]]) -> tuple[PrivateSegment, ...]:
    """Return the segments of graphs and `MemPool` objects, sorted by address."""
    found = []
    for one in segments:
        first, second = (*(one.get("segment_pool_id") or ())[:2], 0, 0)[:2]
        if first or second:
            found.append(
                PrivateSegment(
                    (integer(first, "a pool id"), integer(second, "a pool id")),
                    integer(one["address"], "the address of a segment"),
                    integer(one.get("total_size", 0), "the size of a segment"),
                )
            )
    return tuple(sorted(found, key=lambda segment: segment.address))


def private_note(private: Sequence[PrivateSegment]) -> dict[str, str]:
    """Return a note about private segments, which the allocator's model leaves out; or {}."""
    if not private:
        return {}
    held = format_bytes(sum(one.size for one in private))
    return {"private pools": f"{held} of graphs and pools, which the model of PyTorch leaves out"}


def settings_of(found: Any) -> dict[str, str]:
    """Return settings as text, nested settings as in `PYTORCH_CUDA_ALLOC_CONF`; {} if invalid."""
    if not isinstance(found, dict):
        return {}
    return {_plain(name): _plain(value) for name, value in found.items()}


def _plain(value: Any) -> str:
    """Return the beginning of a setting as text: a malicious file may have huge settings."""
    if isinstance(value, dict):
        parts = [f"{_part(key)}:{_part(own)}" for key, own in islice(value.items(), _MOST_PARTS)]
        return f"[{','.join(parts)}]"
    return _part(value)


def _part(value: Any) -> str:
    return printable(value[:_MOST_TEXT]) if isinstance(value, str) else shown(value)
