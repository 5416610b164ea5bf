"""Tests of settings as they are written in the environment."""

import pytest

from pgmo.errors import OptionError
from pgmo.profiler.caching.settings import MIB, AllocatorSettings


def test_lists() -> None:
    text = " roundup_power2_divisions:[4:2, 16:8], expandable_segments:True, pinned_x:1"
    read = AllocatorSettings.from_text(text)
    assert read.divisions == (2, 2, 2, 0, 8) + (0,) * 11
    assert read.expandable_segments
    assert AllocatorSettings.from_text("roundup_power2_divisions:8").divisions == (8,) * 16
    rest = AllocatorSettings.from_text("roundup_power2_divisions:[4:2, >:8]")
    assert rest.divisions == (2, 2, 2) + (8,) * 13


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("expandable_segments:yes", "write True or False"),
        ("expandable_segments", "write 'name:value'"),
        ("backend:cudaMallocAsync", "not model the allocator setting 'backend:cudaMallocAsync'"),
        ("max_split_size_mb:many", "write a number"),
        ("max_split_size_mb:inf", "write a number"),
        ("garbage_collection_threshold:nan", "write a number"),
        ("roundup_power2_divisions:3", "power of two"),
        ("roundup_power2_divisions:[3:2]", "powers of two"),
        ("garbage_collection_threshold:7", "from 0 to 1"),
        ("max_split_size_mb:0", "above 0 bytes"),
        ("large_segment_size_mb:3", "multiple of 2 MiB"),
    ],
)
def test_invalid_settings_are_refused(text: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        AllocatorSettings.from_text(text)


def test_the_other_backend_of_pytorchs_own_is_accepted() -> None:
    assert AllocatorSettings.from_text("backend:native") == AllocatorSettings()
    assert AllocatorSettings.from_text("") == AllocatorSettings()


def test_newer_settings_that_place_nothing_elsewhere() -> None:
    text = (
        "throw_on_cudamalloc_oom:True,per_process_memory_fraction:0.5,"
        "expandable_segments_reserve:0.5,"
        "expandable_segments_reserve_by_class:[capture:0.25,workspace:40G],"
        "expandable_segments:True,pinned_max_cached_size_mb:64"
    )
    read = AllocatorSettings.from_text(text)
    assert (read.memory_fraction, read.expandable_segments) == (0.5, True)


def test_sizes_are_in_mebibytes() -> None:
    text = "large_segment_size_mb:64,max_non_split_rounding_mb:80,max_split_size_mb:100"
    read = AllocatorSettings.from_text(text)
    assert (read.large_segment_size, read.max_non_split_rounding) == (64 * MIB, 80 * MIB)
    assert read.max_split_size == 100 * MIB
