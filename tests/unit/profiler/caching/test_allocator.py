"""Tests of the model against figures of the genuine caching allocator, from `check_model.py`."""

import json
from itertools import pairwise
from pathlib import Path

import pytest

from pgmo.errors import OptionError
from pgmo.profiler.caching.model import native_allocator
from pgmo.profiler.caching.settings import AllocatorSettings
from tests.unit.profiler.caching.request_sequences import MIB, ModelRun, Program, steps

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
    assert any(figures[2] for one in RECORDED for figures in one["curve"])  # some request failed


def test_a_capacity_of_nothing_is_refused() -> None:
    with pytest.raises(OptionError, match="capacity is 0 bytes"):
        native_allocator(capacity=0)


def test_a_block_that_was_freed_by_a_retry_is_not_freed_again() -> None:
    allocator = native_allocator(capacity=64 * MIB)
    first, _ = allocator.allocate(40 * MIB, 0)
    number = allocator.postpone(first)
    second, _ = allocator.allocate(40 * MIB, 1)  # the retry waits for the other stream
    assert second >= 0
    allocator.settle(number)
    assert allocator.active == 40 * MIB
    assert allocator.retries == 1


def test_oversize_blocks_of_expandable_segments_are_not_released_as_segments() -> None:
    settings = AllocatorSettings.from_text("max_split_size_mb:32,expandable_segments:True")
    allocator = native_allocator(settings, 128 * MIB)
    large, _ = allocator.allocate(64 * MIB, 0)
    small, _ = allocator.allocate(11 * MIB, 0)
    allocator.free(large)
    assert allocator.allocate(120 * MIB, 0)[0] == -1
    allocator.free(small)
    assert allocator.allocate(120 * MIB, 0)[0] >= 0
    assert allocator.reserved == 120 * MIB
