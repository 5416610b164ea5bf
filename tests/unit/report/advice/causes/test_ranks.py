"""Tests of causes in programs of several ranks, with DDP and FSDP."""

import pytest

from pgmo.profiler.profile import NEVER
from pgmo.report.advice.causes.ranks import (
    gathered_ahead,
    gradient_buckets,
    not_resharded,
    one_unit,
)
from tests.unit.report.advice.recordings import facts


@pytest.mark.parametrize("views", [True, False])
def test_gradients_next_to_their_buckets(views):
    rows = [("bucket", 80, 0, NEVER)]
    for _ in range(3):
        at = len(rows)
        rows.append(("layer 1", 8, at, at + 2))
        ends = [at + 2 + one if views else at + 10 for one in range(8)]
        rows += [("backward", 10, at + 1 + one, end) for one, end in enumerate(ends)]
        rows.append(("other", 1, at + 9, at + 10))
    hint = gradient_buckets(facts(*rows))
    assert (hint is None) == views
    if hint is not None:
        assert hint.bytes == 161 - 100  # two gradients remain live at a time


def test_gradients_that_accumulate_are_no_second_copy():
    rows = [("bucket", 80, 0, NEVER)]
    for _ in range(3):
        at = len(rows)
        rows.append(("layer 1", 8, at, at + 2))
        rows += [("backward", 10, at + 1 + one, at + 20) for one in range(8)]
        rows.append(("other", 1, at + 9, at + 10))
    end = len(rows)
    found = facts(*((name, size, at, min(to, end)) for name, size, at, to in rows))
    assert gradient_buckets(found) is None


@pytest.mark.parametrize("unit", [8, 2])
def test_layers_that_are_gathered_at_once(unit):
    rows = []
    for _ in range(0, 8, unit):
        at = len(rows)
        rows += [("gathered", 50, at + one, at + unit + 1) for one in range(unit)]
        rows.append(("layer 1", 8, at + unit, at + unit + 1))
    hint = one_unit(facts(*rows))
    assert (hint is None) == (unit == 2)
    if hint is not None:
        assert hint.bytes == 8 * (50 - 50 // 4)  # two of eight layers remain gathered at a time


@pytest.mark.parametrize(
    ("name", "ahead", "saved"),
    [
        ("buffer", 1, 0),
        ("buffer", 3, 2 * 50 - 8),
        ("buffer in backward", 1, 50 - 8),
        ("buffer in backward", 3, 3 * 50 - 8),
    ],
)
def test_units_that_are_gathered_ahead(name, ahead, saved):
    rows = []
    for unit in range(8):
        at = 2 * unit
        rows += [(name, 50, at, min(16, at + 1 + 2 * ahead)), ("layer 1", 8, at + 1, at + 2)]
    # Without the buffers of units ahead, the peak is a layer with its own buffer.
    hint = gathered_ahead(facts(*rows))
    assert (0 if hint is None else hint.bytes) == saved


@pytest.mark.parametrize("units", [8, 3])
@pytest.mark.parametrize("kept", [True, False])
def test_parameters_that_are_kept_for_the_backward_pass(units, kept):
    rows = []
    for _ in range(2):
        at, end = len(rows), len(rows) + 4 * units
        for unit in range(units):
            freed = end - 2 * unit if kept or not unit else at + 2 * unit + 3
            rows += [("gathered", 50, at + 2 * unit, freed)]
            rows += [("layer 1", 8, at + 2 * unit + 1, end - 2 * unit)]
        rows += [("backward", 8, at + one, at + one + 1) for one in range(2 * units, 4 * units)]
    hint = not_resharded(facts(*rows))
    assert (hint is not None) == (kept and units == 8)
    if hint is not None:
        # The root, the running unit and the next one remain gathered.
        assert hint.bytes == 5 * 50
