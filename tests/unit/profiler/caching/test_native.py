"""The native model of PyTorch's allocator makes the decisions of the one in Python, step by step.

The one in Python is compared with the genuine allocator by `tests/fakecuda/check_model.py`.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pgmo.profiler.caching.allocator import CachingAllocator, OutOfMemoryError
from pgmo.profiler.caching.native import native_allocator
from tests.unit.profiler.caching.request_sequences import MIB, Program, steps

if TYPE_CHECKING:
    from pgmo.profiler.caching.pools import Block

PROGRAMS = (
    Program("", 1),
    Program("", 2, card=1024),
    Program("", 3, other_streams=True),
    Program("", 4, card=1024, fraction=0.5, other_streams=True),
    Program("expandable_segments:True", 5),
    Program("expandable_segments:True", 6, card=1024),
    Program("expandable_segments:True", 7, other_streams=True),
    Program("expandable_segments:True", 8, card=1024, fraction=0.5, other_streams=True),
    Program("roundup_power2_divisions:4", 9),
    Program("roundup_power2_divisions:[2:2,8:4,64:1,>:8]", 10, other_streams=True),
    Program("max_split_size_mb:32", 11),
    Program("max_split_size_mb:64,max_non_split_rounding_mb:40", 12, card=1024),
    Program("max_split_size_mb:32,roundup_power2_divisions:2", 13, card=1024, fraction=0.6),
    Program("garbage_collection_threshold:0.6", 14, card=2048, fraction=0.6),
    Program("garbage_collection_threshold:0.3,max_split_size_mb:100", 15, card=1024, fraction=0.9),
    Program("garbage_collection_threshold:0.5,expandable_segments:True", 16, 400, 1024, 0.9),
    Program("large_segment_size_mb:64", 17),
    Program("large_segment_size_mb:40,expandable_segments:True", 18, card=1024),
)


class Both:
    """The two models, which get the same requests."""

    def __init__(self, program: Program) -> None:
        card = program.card * MIB
        self.python = CachingAllocator(program.settings, card, card=card)
        self.native = native_allocator(program.settings, card, card=card)
        self.blocks: dict[int, tuple[Block, int]] = {}
        self.shared: set[int] = set()
        self.pending: list[tuple[Block, int]] = []

    def step(self, step: tuple) -> None:
        """Takes one step on both."""
        match step:
            case ("alloc", number, size, stream):
                try:
                    block = self.python.malloc(size, stream)
                except OutOfMemoryError:
                    block = None
                native, address = self.native.allocate(size, stream)
                assert (native < 0) == (block is None)
                if block is not None:
                    assert address == block.address
                    self.blocks[number] = (block, native)
            case ("free", number) if number in self.blocks:
                block, native = self.blocks.pop(number)
                if number in self.shared:
                    self.python.defer(block)
                    self.pending.append((block, self.native.postpone(native)))
                else:
                    self.python.free(block)
                    self.native.free(native)
            case ("share", number, stream) if number in self.blocks:
                if stream != self.blocks[number][0].pool.stream:
                    self.shared.add(number)
            case ("release", _):
                for block, number in self.pending:
                    if self.python.is_pending(block):
                        self.python.free(block)
                    self.native.settle(number)
                self.pending.clear()
            case ("empty",):
                self.python.empty_cache()
                self.native.empty_cache()

    def check(self) -> None:
        """All that the two know of memory is the same."""
        assert self.native.reserved == self.python.reserved
        assert self.native.active == self.python.active
        assert self.native.retries == self.python.retries
        free = [
            (block.size, block.address, pool.stream, pool.small)
            for pool in self.python.pools()
            for block in pool.blocks()
        ]
        assert self.native.free_blocks() == sorted(free)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: f"{one.seed}-{one.conf or 'default'}")
def test_the_native_model_decides_as_the_one_in_python(program):
    for seed in range(program.seed, program.seed + 500, 100):
        both = Both(replace(program, seed=seed))
        for step in steps(replace(program, seed=seed)):
            both.step(step)
            both.check()


def test_a_block_that_was_freed_by_a_retry_is_not_freed_again():
    native = native_allocator(Program("", 0).settings, 64 * MIB, card=64 * MIB)
    first, _ = native.allocate(40 * MIB, 0)
    number = native.postpone(first)
    second, _ = native.allocate(40 * MIB, 1)  # the retry waits for the other stream
    assert second >= 0
    native.settle(number)
    assert native.active == 40 * MIB
    assert native.retries == 1
