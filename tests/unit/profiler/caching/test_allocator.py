"""Rules of the caching allocator, and figures that the genuine one gave (`check_model.py`)."""

import json
from itertools import pairwise
from pathlib import Path

import pytest

from pgmo.errors import OptionError
from pgmo.profiler.caching.allocator import MIB, CachingAllocator, OutOfMemoryError, rounded
from pgmo.profiler.caching.settings import AllocatorSettings
from tests.unit.profiler.caching.request_sequences import ModelRun, Program, steps

RECORDED = json.loads((Path(__file__).parent / "recorded_reserved.json").read_text("utf-8"))


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda one: one["program"]["conf"] or "default")
def test_figures_of_the_genuine_allocator(recorded: dict) -> None:
    program = Program(**recorded["program"])
    run = ModelRun(program, recorded["capacity"])
    states = [run.step(step) for step in steps(program)]
    seen = [[one.reserved // MIB, int(one.failed), one.active] for one in states]
    changes = (at for at, (one, two) in enumerate(pairwise(seen), 1) if one[:2] != two[:2])
    assert [[at, *seen[at]] for at in (0, *changes)] == recorded["curve"]


def test_the_record_covers_every_rule() -> None:
    conf = " ".join(one["program"]["conf"] for one in RECORDED)
    for name in ("expandable", "roundup", "max_split", "non_split", "garbage", "large_segment"):
        assert name in conf
    assert any(figures[2] for one in RECORDED for figures in one["curve"])  # out of memory


@pytest.mark.parametrize(
    ("request_size", "segment"),
    [(1, 2), (MIB, 2), (MIB + 1, 20), (10 * MIB - 512, 20), (10 * MIB, 10), (10 * MIB + 1, 12)],
)
def test_segments(request_size: int, segment: int) -> None:
    allocator = CachingAllocator()
    allocator.malloc(request_size)
    assert allocator.reserved == segment * MIB


@pytest.mark.parametrize(
    ("size", "divisions", "expected"),
    [
        (1, 0, 512),
        (513, 0, 1024),
        (1200, 4, 1536),
        (5 * MIB, 4, 5 * MIB),
        (5 * MIB + 1, 2, 6 * MIB),
    ],
)
def test_rounding(size: int, divisions: int, expected: int) -> None:
    assert rounded(size, (divisions,) * 16) == expected


def test_small_remainders_of_large_blocks_stay_with_them() -> None:
    allocator = CachingAllocator()
    whole = allocator.malloc(30 * MIB)
    allocator.free(whole)
    assert allocator.malloc(29 * MIB).size == 30 * MIB
    assert allocator.active == 30 * MIB


def test_larger_remainders_are_used() -> None:
    allocator = CachingAllocator()
    allocator.free(allocator.malloc(30 * MIB))
    first, second = allocator.malloc(20 * MIB), allocator.malloc(10 * MIB)
    assert second.address == first.address + 20 * MIB
    assert allocator.reserved == 30 * MIB


def test_neighbours_merge_in_any_order() -> None:
    allocator = CachingAllocator()
    parts = [allocator.malloc(5 * MIB) for _ in range(4)]
    assert allocator.reserved == 20 * MIB
    for index in (2, 0, 3, 1):
        allocator.free(parts[index])
    assert allocator.malloc(19 * MIB + 1).address == parts[0].address
    assert allocator.reserved == 20 * MIB


def test_the_lower_of_two_equal_blocks_is_taken() -> None:
    allocator = CachingAllocator()
    blocks = [allocator.malloc(12 * MIB) for _ in range(3)]
    for block in (blocks[2], blocks[0]):
        allocator.free(block)
    assert allocator.malloc(12 * MIB).address == blocks[0].address


def test_streams_do_not_share() -> None:
    allocator = CachingAllocator()
    allocator.free(allocator.malloc(12 * MIB, stream=1))
    allocator.malloc(12 * MIB, stream=2)
    assert allocator.reserved == 24 * MIB


def test_a_deferred_block_is_in_use_until_memory_runs_short() -> None:
    allocator = CachingAllocator(capacity=40 * MIB)
    block = allocator.malloc(30 * MIB)
    allocator.defer(block)
    assert allocator.active == 30 * MIB
    allocator.malloc(36 * MIB)
    assert (allocator.retries, allocator.reserved, allocator.is_pending(block)) == (
        1,
        36 * MIB,
        False,
    )


def test_out_of_memory_says_the_numbers() -> None:
    allocator = CachingAllocator(capacity=40 * MIB)
    allocator.malloc(30 * MIB)
    with pytest.raises(OutOfMemoryError, match=r"no room for 20\.0 MiB: 30\.0 MiB are reserved"):
        allocator.malloc(20 * MIB)


def test_expandable_segments_reuse_what_is_free_before_their_end() -> None:
    allocator = CachingAllocator(AllocatorSettings(expandable_segments=True))
    for megabytes in (30, 50, 70):
        block = allocator.malloc(megabytes * MIB)
        allocator.free(block)
    assert allocator.reserved == 80 * MIB  # pages of 20 MiB for the largest, not the sum
    allocator.empty_cache()
    assert allocator.reserved == 0


def test_oversize_blocks_serve_only_large_requests() -> None:
    allocator = CachingAllocator(AllocatorSettings(max_split_size=64 * MIB))
    allocator.free(allocator.malloc(100 * MIB))
    allocator.malloc(40 * MIB)
    assert allocator.reserved == 140 * MIB
    assert allocator.malloc(90 * MIB).size == 100 * MIB


def test_garbage_collection_needs_a_limit_of_the_program() -> None:
    reserved = []
    for fraction in (None, 1.0):
        settings = AllocatorSettings(garbage_collection_threshold=0.5, memory_fraction=fraction)
        allocator = CachingAllocator(settings, capacity=100 * MIB)
        allocator.free(allocator.malloc(60 * MIB))
        allocator.malloc(30 * MIB, stream=1)
        reserved.append(allocator.reserved)
    assert reserved == [90 * MIB, 30 * MIB]


def test_a_capacity_of_nothing_is_refused() -> None:
    with pytest.raises(OptionError, match="capacity is 0 bytes"):
        CachingAllocator(capacity=0)
