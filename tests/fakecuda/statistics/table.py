"""Expected values under pgmo of every key of `torch.cuda.memory_stats()`."""

SAME = "same"
"""The value counts pages and PyTorch's allocator, and equals that of plain PyTorch."""

BOTH = "both"
"""The value counts pages and PyTorch's allocator, and differs from that of plain PyTorch."""

BENEATH = "beneath"
"""The value counts only PyTorch's allocator: pages have no segments and no small pool."""

SETTING = "setting"
"""The value is a setting of PyTorch's allocator."""

_LEVELS = ("current", "peak", "allocated", "freed")
_POOLS = ("small_pool", "large_pool")
_COUNTED = (
    *("allocation", "allocated_bytes", "active", "active_bytes", "requested_bytes"),
    "reserved_bytes",
)
_OF_SEGMENTS = ("segment", "inactive_split", "inactive_split_bytes")
_OVERSIZE = ("oversize_allocations", "oversize_segments")

TABLE: dict[str, str] = {
    **{f"{name}.all.{level}": SAME for name in _COUNTED[:-1] for level in _LEVELS},
    **{f"reserved_bytes.all.{level}": BOTH for level in _LEVELS},
    **{
        f"{name}.{pool}.{level}": BENEATH
        for name in (*_COUNTED, *_OF_SEGMENTS)
        for pool in _POOLS
        for level in _LEVELS
    },
    **{f"{name}.all.{level}": BENEATH for name in _OF_SEGMENTS for level in _LEVELS},
    **{f"{name}.{level}": BENEATH for name in _OVERSIZE for level in _LEVELS},
    "num_alloc_retries": SAME,
    "num_ooms": SAME,
    "num_sync_all_streams": BENEATH,
    "num_device_alloc": BOTH,
    "num_device_free": BOTH,
    "max_split_size": SETTING,
}


def falls(before: dict[str, int], after: dict[str, int]) -> list[str]:
    """Return the keys whose values have fallen, although they only grow in PyTorch."""
    return [
        key for key, value in after.items() if not key.endswith(".current") and value < before[key]
    ]


def contradictions(stats: dict[str, int], *, asleep: bool = False, sums: bool = True) -> list[str]:
    """Return contradictions between values.

    Args:
        stats: values of `torch.cuda.memory_stats()`.
        asleep: whether there are sleeping blocks, which are neither freed nor current.
        sums: whether the sums of `allocated` and `freed` have never been reset.
    """
    levels = [key.removesuffix(".current") for key in stats if key.endswith(".current")]
    wrong = [f"{key}: peak" for key in levels if stats[f"{key}.peak"] < stats[f"{key}.current"]]
    for key in levels if sums else ():
        left = stats[f"{key}.allocated"] - stats[f"{key}.freed"]
        if left < stats[f"{key}.current"] or (left > stats[f"{key}.current"] and not asleep):
            wrong.append(f"{key}: allocated - freed")
    for level in ("current", "peak"):
        values = [
            stats[f"{key}.all.{level}"]
            for key in ("requested_bytes", "allocated_bytes", "active_bytes", "reserved_bytes")
        ]
        if values != sorted(values):
            wrong.append(f"requested <= allocated <= active <= reserved: {level}")
    return wrong
