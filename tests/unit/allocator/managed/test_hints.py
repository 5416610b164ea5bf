"""Hints that the driver gets."""

from unittest.mock import MagicMock

import pytest

from pgmo.allocator.adapters.managed_hints import Hints
from pgmo.allocator.managed.unified import UnifiedAdapter
from pgmo.packing.planner import plan
from pgmo.profiler.profile import Profile


def test_the_hints_of_an_arena(driver):
    hints = Hints(1)
    hints.keep_on_device(4096, 512)
    hints.keep_on_host(8192, 1024)
    hints.prefetch(4096, 512, to_device=True)
    hints.prefetch(8192, 1024, to_device=False)
    assert driver.calls == [
        ("prefer", 4096, 512, "device 1"),
        ("prefer", 8192, 1024, "host"),
        ("read by", 8192, 1024, "device 1"),
        ("prefetch", 4096, 512, "device 1"),
        ("prefetch", 8192, 1024, "host"),
    ]
    assert hints.note == ""


def test_the_first_refusal_ends_all_advice(driver):
    hints = Hints(0)
    driver.result = 1
    hints.prefetch(4096, 512, to_device=True)
    assert hints.note == "hints about unified memory have stopped: cuMemPrefetchAsync failed with 1"
    hints.keep_on_device(4096, 512)
    assert len(driver.calls) == 1


def test_arenas_are_known_until_they_are_exchanged(driver):
    """Arenas live on while idle pages are freed, and later prefetches need their addresses."""
    inner = MagicMock(index=0)
    inner.take_arena.return_value = MagicMock(base=4096, bytes=512)
    managed = MagicMock()
    managed.card.free = 1024
    adapter = UnifiedAdapter(inner, managed)
    adapter.take_arena(512, stream=0)
    adapter.empty_cache(pages=True)
    assert adapter.arenas == [(4096, 512)]
    adapter.empty_cache()
    assert adapter.arenas == []


@pytest.mark.parametrize(("free", "kept"), [(1024, [4096, 8192]), (1000, [])])
def test_arenas_are_kept_on_the_device_if_all_of_them_fit_there(driver, free, kept):
    inner, managed = MagicMock(index=0), MagicMock()
    managed.card.free = free
    adapter = UnifiedAdapter(inner, managed)
    for stream, base in enumerate((4096, 8192)):
        inner.take_arena.return_value = MagicMock(base=base, bytes=512)
        adapter.take_arena(512, stream)
    profile = Profile.from_columns(
        size=[512, 512], start=[0, 1], end=[1, 2], stream=[0, 1], ticks=2
    )
    for _ in range(2):
        adapter.prefetch(plan(profile))
    assert [address for what, address, *_ in driver.calls if what == "prefer"] == kept
