"""Tests of all causes on recordings without requests, and of settings of the allocator."""

from types import SimpleNamespace

import pytest

from pgmo.profiler.trace import Event, Trace
from pgmo.report.advice import RULES
from pgmo.report.advice.all_blocks import AllBlocks
from pgmo.report.advice.causes.allocator_settings import allocator_settings
from pgmo.report.advice.trouble import leaking
from tests.unit.report.advice.recordings import NAMES, TAGS


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_without_requests(name):
    at = NAMES.index(name)
    rows = [(Event.ALLOC, 64), (Event.FREE_REQUESTED, 64), (Event.FREE_COMPLETED, 64)]
    kind, address = zip(*rows, strict=True)
    trace = Trace.from_columns(
        kind=kind,
        address=address,
        size=[64] * 3,
        tag=[at, -1, -1],
        before=1,
        tags=tuple(TAGS.values()),
    )
    blocks = AllBlocks.of(SimpleNamespace(trace=trace))
    assert (blocks.peak, blocks.live.tolist()) == (0, [0])
    nothing = SimpleNamespace(leaks=SimpleNamespace(found=()), fragmentation=None)
    own = SimpleNamespace(meta=SimpleNamespace(notes={"marks": "Optimizer.step#"}), trace=None)
    for rule in RULES[1 : RULES.index(leaking)]:
        assert rule(SimpleNamespace(blocks=blocks, explanation=nothing, profile=own)) is None


@pytest.mark.parametrize(
    ("limit", "rounding", "named"),
    [
        ("-1", "[1:0,2:1]", ""),
        (str(8 << 20), "[1:0,2:0]", "max_split_size_mb"),
        ("-1", "[1:0,2:16]", "roundup_power2_divisions"),
        (str(8 << 20), "[1:0,2:16]", "max_split_size_mb and roundup_power2_divisions"),
    ],
)
def test_a_setting_that_costs_memory(limit, rounding, named):
    size = 32 << 20
    rows = [(Event.ALLOC, size), (Event.FREE_REQUESTED, size), (Event.FREE_COMPLETED, size)]
    trace = Trace.from_columns(
        kind=[Event.SEGMENT_ALLOC, *(kind for kind, _ in rows)] * 2,
        address=[1 << 30] * 4 + [2 << 30] * 4,
        size=[size] * 8,
        settings={"max_split_size": limit, "roundup_power2_divisions": rounding},
    )
    profile = SimpleNamespace(trace=trace)
    explanation = SimpleNamespace(fragmentation=SimpleNamespace(peak_reserved=2 * size))
    hint = allocator_settings(
        SimpleNamespace(
            blocks=AllBlocks.of(profile),
            profile=profile,
            explanation=explanation,
            is_expandable=False,
        )
    )
    assert (hint is None) == (not named)
    if hint is not None:
        assert hint.bytes == size
        assert hint.peak == 2 * size
        assert f" with {named} in " in hint.text
