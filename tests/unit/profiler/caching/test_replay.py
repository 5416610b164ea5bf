"""Traces replayed: followed from the middle of a program, and as they might have been."""

from itertools import takewhile

import numpy as np
import pytest

from pgmo.errors import OptionError
from pgmo.profiler.caching.allocator import MIB, CachingAllocator, OutOfMemoryError
from pgmo.profiler.caching.model import AllocatorSettings, simulate_trace
from pgmo.profiler.caching.pools import Block, BlockPool
from pgmo.profiler.trace import Event, Trace
from tests.unit.profiler.caching.request_sequences import Program, steps

Row = tuple[int, int, int, int]


class Recorder(CachingAllocator):
    """The model, writing the history that PyTorch would."""

    def __init__(self, settings: AllocatorSettings, capacity: int | None) -> None:
        super().__init__(settings, capacity, card=8192 * MIB)
        self.rows: list[Row] = []

    def add_segment(self, pool: BlockPool, size: int) -> Block:
        block = super().add_segment(pool, size)
        self.rows.append((Event.SEGMENT_ALLOC, block.address, size, pool.stream))
        return block

    def release(self, block: Block) -> None:
        self.rows.append((Event.SEGMENT_FREE, block.address, block.size, block.pool.stream))
        super().release(block)

    def map(self, block: Block, size: int) -> bool:
        address, before = block.address, self.reserved
        done = super().map(block, size)
        if done:
            mapped = self.reserved - before
            self.rows.append((Event.SEGMENT_MAP, address, mapped, block.pool.stream))
        return done

    def unmap(self, block: Block) -> None:
        before, space = self.reserved, block.space
        assert space is not None
        address = space.address + -(-(block.address - space.address) // space.page) * space.page
        super().unmap(block)
        if self.reserved < before:
            size = before - self.reserved
            self.rows.append((Event.SEGMENT_UNMAP, address, size, block.pool.stream))


def history(program: Program, capacity: int | None = None) -> tuple[list[Row], list[int]]:
    """What a program does, and what is reserved after each of its requests."""
    recorder = Recorder(program.settings, capacity)
    rows, reserved = recorder.rows, []
    alive: dict[int, tuple[Block, int]] = {}
    for step in steps(program):
        match step:
            case ("alloc", number, size, stream):
                try:
                    block = recorder.malloc(size, stream)
                except OutOfMemoryError:
                    rows.append((Event.OOM, 0, size, stream))
                    continue
                alive[number] = (block, size)
                rows.append((Event.ALLOC, block.address, size, stream))
                reserved.append(recorder.reserved)
            case ("free", number) if number in alive:
                block, size = alive.pop(number)
                for kind in (Event.FREE_REQUESTED, Event.FREE_COMPLETED):
                    rows.append((kind, block.address, size, block.pool.stream))
                recorder.free(block)
            case ("empty",):
                recorder.empty_cache()
    return rows, reserved


def trace_of(rows: list[Row], cut: int, conf: str) -> Trace:
    """The trace of what follows a cut, with the rows that rebuild what was there."""
    blocks: dict[int, Row] = {}
    pages: dict[int, Row] = {}  # memory in steps of 2 MiB
    for kind, address, size, stream in rows[:cut]:
        steps_of = range(address, address + size, 2 * MIB)
        if kind == Event.ALLOC:
            blocks[address] = (kind, address, size, stream)
        elif kind == Event.FREE_COMPLETED:
            del blocks[address]
        elif kind == Event.SEGMENT_MAP:
            pages |= {at: (Event.SEGMENT_MAP, at, 2 * MIB, stream) for at in steps_of}
        elif kind == Event.SEGMENT_ALLOC:
            pages[address] = (kind, address, size, stream)
        elif kind in (Event.SEGMENT_FREE, Event.SEGMENT_UNMAP):
            for at in steps_of:
                pages.pop(at, None)
    segments: list[Row] = []
    for kind, address, size, stream in (pages[at] for at in sorted(pages)):
        last = segments[-1] if segments else (0, 0, 0, -1)
        if kind == Event.SEGMENT_MAP and last[1] + last[2] == address and last[3] == stream:
            segments[-1] = (last[0], last[1], last[2] + size, stream)
        else:
            segments.append((Event.SEGMENT_ALLOC, address, size, stream))
    before = [*segments, *blocks.values()]
    kind, address, size, stream = zip(*before, *rows[cut:], strict=True)
    return Trace.from_columns(
        kind=kind,
        address=address,
        size=size,
        stream=np.array(stream, np.uint64),
        before=len(before),
        settings={"PYTORCH_CUDA_ALLOC_CONF": conf},
    )


@pytest.mark.parametrize("conf", ["", "expandable_segments:True", "roundup_power2_divisions:4"])
def test_its_own_settings_reserve_what_was_reserved(conf: str) -> None:
    rows, reserved = history(Program(conf, seed=31, steps=500, other_streams=True))
    trace = trace_of(rows, 0, conf)
    result = simulate_trace(trace)
    assert result.failed is None
    assert result.reserved.tolist() == reserved


def test_the_same_card_is_short_of_the_same_memory() -> None:
    program = Program("", seed=6, steps=500)
    rows, reserved = history(program, 600 * MIB)
    first = next(row for row, (kind, *_) in enumerate(rows) if kind == Event.OOM)
    trace = trace_of(rows[: first + 1], 0, "")
    result = simulate_trace(trace, capacity=600 * MIB)
    assert result.failed == trace.requests  # the one after those that were served
    assert result.reserved.tolist() == reserved[: trace.requests]
    assert result.retries > 0
    assert simulate_trace(trace, capacity=600 * MIB * 8).failed is None


def test_other_settings_of_the_same_program() -> None:
    rows, reserved = history(Program("", seed=8, steps=500))
    _, expandable = history(Program("expandable_segments:True", seed=8, steps=500))
    trace = trace_of(rows, 0, "")
    other = simulate_trace(trace, AllocatorSettings(expandable_segments=True))
    # Nothing runs short: every release is the program's `empty_cache`.
    assert other.reserved.tolist() == expandable
    assert other.reserved.tolist() != reserved


def test_what_was_cached_before_does_not_count() -> None:
    kind = [Event.SEGMENT_ALLOC, Event.SEGMENT_ALLOC, Event.ALLOC, Event.ALLOC]
    trace = Trace.from_columns(
        kind=kind,
        address=[64 * MIB, 128 * MIB, 64 * MIB, 128 * MIB],
        size=[20 * MIB, 90 * MIB, 3 * MIB, 40 * MIB],
        before=3,
    )
    assert simulate_trace(trace).peak_reserved == 60 * MIB
    expandable = simulate_trace(trace, AllocatorSettings(expandable_segments=True))
    assert expandable.peak_reserved == 60 * MIB


def test_blocks_without_segments_are_requested() -> None:
    trace = Trace.from_columns(
        kind=[Event.ALLOC, Event.ALLOC, Event.FREE_COMPLETED],
        address=[512, 5 * MIB, 512],
        size=[3 * MIB, 4 * MIB, 3 * MIB],
        before=1,
    )
    result = simulate_trace(trace)
    assert (result.reserved.tolist(), result.active.tolist()) == ([20 * MIB], [7 * MIB])


def test_a_deferred_block_is_reused_when_its_free_is_complete() -> None:
    kinds = [Event.ALLOC, Event.FREE_REQUESTED, Event.ALLOC, Event.FREE_COMPLETED, Event.ALLOC]
    trace = Trace.from_columns(
        kind=kinds,
        address=[512, 512, 64 * MIB, 512, 512],
        size=[12 * MIB] * 5,
    )
    result = simulate_trace(trace)
    assert (result.reserved // MIB).tolist() == [12, 24, 24]
    # Short of memory, the allocator waits for it; its completion then frees nothing twice.
    short = simulate_trace(trace, capacity=30 * MIB)
    assert short.failed is None
    tight = simulate_trace(
        Trace.from_columns(kind=kinds[:4], address=[512, 512, 1024, 512], size=[20 * MIB] * 4),
        capacity=30 * MIB,
    )
    assert (tight.failed, tight.retries, tight.peak_reserved) == (None, 1, 20 * MIB)


def test_requested_frees_free_where_no_others_are_known() -> None:
    trace = Trace.from_columns(
        kind=[Event.ALLOC, Event.FREE_REQUESTED, Event.ALLOC],
        address=[512, 512, 512],
        size=[12 * MIB] * 3,
    )
    assert simulate_trace(trace).peak_reserved == 12 * MIB


def test_frees_of_what_is_not_known_are_passed_over() -> None:
    trace = Trace.from_columns(
        kind=[Event.FREE_REQUESTED, Event.FREE_COMPLETED, Event.SEGMENT_FREE, Event.ALLOC],
        address=[512, 512, 512, 512],
        size=[12 * MIB] * 4,
    )
    assert simulate_trace(trace).active.tolist() == [12 * MIB]


def test_an_empty_trace() -> None:
    result = simulate_trace(Trace.from_columns(kind=[], address=[], size=[]))
    assert (len(result.reserved), result.peak_reserved, result.failed) == (0, 0, None)


def test_settings_that_have_no_model_are_refused() -> None:
    settings = {"PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"}
    trace = Trace.from_columns(kind=[0], address=[0], size=[8], settings=settings)
    with pytest.raises(OptionError, match="no model of the allocator setting"):
        simulate_trace(trace)
    assert simulate_trace(trace, AllocatorSettings()).peak_reserved == 2 * MIB


def test_rows_before_are_not_requests() -> None:
    rows, _ = history(Program("", seed=9, steps=200))
    begin = len(list(takewhile(lambda row: row[0] != Event.FREE_COMPLETED, rows)))
    trace = trace_of(rows, begin, "")
    result = simulate_trace(trace)
    assert len(result.reserved) == len(result.active) == len(result.address) == trace.requests
