from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgmo import _core
from pgmo.errors import PlanError
from pgmo.packing.plan import UNPLANNED, Plan
from pgmo.packing.validator import validate
from pgmo.profiler.profile import NEVER, ProfileMeta


def made(rows, *, ticks=10, arena=None, alignment=1, circular=True) -> Plan:
    """Return a plan of rows (size, start, end, offset[, alternate[, stream]]); sizes in bytes."""
    full = [(*row, *(UNPLANNED, 0)[len(row) - 4 :]) for row in rows]
    size, start, end, offset, alternate, stream = np.array(full, np.int64).reshape(-1, 6).T
    if arena is None:
        arena = int((np.maximum(offset, alternate) + size).max(initial=0))
    return Plan(
        size=size,
        start=start,
        end=end,
        stream=stream.astype(np.uint64),
        varying=np.zeros(len(size), bool),
        shared=np.zeros(len(size), bool),
        offset=offset,
        alternate=alternate,
        arena=arena,
        max_load=0,
        optimal=False,
        solver="by hand",
        alignment=alignment,
        ticks=ticks,
        circular=circular,
        fingerprint="",
        seconds=0.0,
        meta=ProfileMeta(),
    )


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [(8, 0, 5, 0), (8, 5, 9, 0)],  # no overlap in time
        [(8, 0, 5, 0), (8, 2, 9, 8)],  # no overlap in bytes
        [(8, 8, 12, 0), (8, 2, 8, 0)],  # wraps up to the other's start
        [(8, 0, NEVER, UNPLANNED), (8, 0, 10, 0)],
        [(8, 0, 12, 0, 8), (8, 3, 4, 16)],
        [(8, 0, 20, 8, 0)],
    ],
)
def test_accepts(rows):
    validate(made(rows))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([(8, 0, 5, 0), (8, 4, 9, 7)], r"blocks 0 and 1 overlap at tick 4: \[0, 8\) of block 0, "),
        ([(8, 4, 9, 7), (8, 0, 5, 0)], r"blocks 0 and 1 overlap at tick 4"),
        ([(8, 0, 5, 4), (8, 4, 9, 4)], r"blocks 0 and 1 overlap at tick 4"),  # the same offset
        ([(2, 0, 5, 4), (8, 4, 9, 0)], r"blocks 0 and 1 overlap"),  # nested bytes
        ([(8, 8, 13, 0), (8, 2, 8, 0)], r"blocks 0 and 1 overlap at tick 2: .*\[8, 13\)"),
        ([(8, 8, 12, 0), (8, 9, 10, 4)], r"blocks 0 and 1 overlap at tick 9"),
        ([(8, 0, 12, 0, 8), (8, 5, 6, 12)], r"blocks 0 and 1 overlap at tick 5"),
        ([(8, 0, 12, 0, 8), (8, 5, 6, 4)], r"blocks 0 and 1 overlap at tick 5"),
        ([(8, 0, 12, 0, 4)], r"blocks 0 and 0 overlap at tick 0"),
        ([(8, 0, 2, 0), (8, 1, NEVER, 8)], r"row 1: offset is 8, must be -1"),
        ([(8, 0, 2, 0), (8, 1, 2, UNPLANNED)], r"row 1: offset is -1, must be from 0 to the arena"),
        ([(8, 0, 2, 0, 8)], r"row 0: alternate is 8, must be -1"),
        ([(8, 0, 12, 0)], r"row 0: alternate is -1, must be from 0 to the arena"),
        ([(8, 0, 2, 0), (0, 1, 2, 8)], r"row 1: size is 0"),
        ([(8, 10, 12, 0)], r"row 0: start is 10"),
        ([(8, 4, 4, 0)], r"row 0: end is 4"),
        ([(8, 4, 25, 0, 8)], r"row 0: end is 25"),
        ([(8, 0, 2, 0, -1, 3), (8, 4, 5, 4, -1, 5)], r"streams 3 and 5 overlap"),
    ],
)
def test_refuses(rows, message):
    with pytest.raises(PlanError, match=message):
        validate(made(rows))


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (
            [(8, 0, 2, 0), (8, 1, 3, 8)],
            {"arena": 15},
            "offset is 8, must be from 0 to the arena",
        ),
        ([(64, 0, 2, 0), (8, 1, 3, 96)], {"alignment": 64}, "offset is 96, must be a multiple of"),
    ],
)
def test_refuses_slots_off_the_arena_or_the_alignment(rows, options, message):
    with pytest.raises(PlanError, match=f"row 1: {message}"):
        validate(made(rows, **options))


def test_shared_blocks_have_no_slot():
    plan = made([(8, 0, 5, 0), (8, 4, 9, UNPLANNED), (8, 4, 15, UNPLANNED)])
    shared = np.array([False, True, True])
    validate(replace(plan, shared=shared))
    with pytest.raises(PlanError, match="row 0: offset is 0, must be -1: this block needs no such"):
        validate(replace(plan, shared=~shared | shared))
    with pytest.raises(PlanError, match="row 1: offset is -1, must be from 0 to the arena"):
        validate(replace(plan, shared=np.array([False, False, True])))
    two = made([(8, 0, 5, 0), (8, 4, 15, UNPLANNED, 8)], arena=16)
    with pytest.raises(PlanError, match="row 1: alternate is 8, must be -1"):
        validate(replace(two, shared=np.array([False, True])))


def test_refuses_wrapping_on_a_line():
    validate(made([(8, 8, 12, 0)]))
    with pytest.raises(PlanError, match="row 0: end is 12"):
        validate(made([(8, 8, 12, 0)], circular=False))


@given(
    rows=st.lists(
        st.tuples(st.integers(1, 6), st.integers(0, 7), st.integers(1, 16), st.integers(0, 20)),
        max_size=5,
    ),
    alternates=st.lists(st.integers(0, 20), min_size=5, max_size=5),
)
def test_agrees_with_two_turns_played_byte_by_byte(rows, alternates):
    ticks = 8
    drawn = [
        (size, start, start + life, offset, alternate if life > ticks else UNPLANNED)
        for (size, start, life, offset), alternate in zip(rows, alternates, strict=False)
    ]
    # Turn k of a block is [start + k * ticks, end + k * ticks). A block with two slots uses them in
    # turn. Here, all such blocks use the same slot in the same iteration.
    owner: dict[tuple[int, int], tuple[int, int]] = {}
    overlap = False
    for row, (size, start, end, offset, alternate) in enumerate(drawn):
        for turn in range(-2, 4):
            for slot in {offset, alternate} - {UNPLANNED}:
                if alternate == UNPLANNED or slot == (offset, alternate)[turn % 2]:
                    for tick in range(max(0, start + turn * ticks), end + turn * ticks):
                        for byte in range(slot, slot + size):
                            key = owner.setdefault((tick, byte), (row, turn))
                            overlap |= key != (row, turn) and tick >= 8 and tick < 24
    if not overlap:
        # The validator also demands that blocks with two slots may begin with either slot.
        overlap |= _whole_period_overlap(drawn, ticks)
    if overlap:
        with pytest.raises(PlanError, match="overlap"):
            validate(made(drawn, ticks=ticks))
    else:
        validate(made(drawn, ticks=ticks))


def _whole_period_overlap(rows, ticks):
    taken: dict[tuple[int, int], int] = {}
    for size, start, end, offset, alternate in rows:
        for slot in (offset, alternate) if alternate != UNPLANNED else (offset,):
            stay = range(ticks) if alternate != UNPLANNED else range(start, end)
            for tick in stay:
                for byte in range(slot, slot + size):
                    at = (tick % ticks, byte)
                    taken[at] = taken.get(at, 0) + 1
    return any(count > 1 for count in taken.values())


def test_resident_and_spilled_slots_are_validated_apart():
    rows = [(8, 0, 5, 0, UNPLANNED, 0), (8, 0, 5, 8, UNPLANNED, 1), (8, 0, 5, 16, UNPLANNED, 0)]
    plan = made(rows)
    with pytest.raises(PlanError, match="streams 0 and 1 overlap"):
        validate(plan)
    validate(replace(plan, resident=16))  # stream 0 has a range in either part
    with pytest.raises(PlanError, match=r"row 1: offset is 8, .* wholly below or above 12"):
        validate(replace(plan, resident=12))
    rows[2] = (8, 0, 5, 20, UNPLANNED, 0)
    rows.append((8, 0, 5, 24, UNPLANNED, 1))
    with pytest.raises(PlanError, match="streams 0 and 1 overlap"):
        validate(replace(made(rows), resident=16))


columns = st.lists(
    st.tuples(st.integers(0, 8), st.integers(1, 5), st.integers(0, 12), st.integers(1, 5)),
    max_size=12,
)


@given(columns)
def test_the_sweep_finds_what_meets(rows):
    begin, lasts, low, size = np.array(rows, np.int64).reshape(-1, 4).T
    found = _core.first_overlap(begin, begin + lasts, low, low + size)
    meets = [
        (one, other)
        for one in range(len(rows))
        for other in range(len(rows))
        if one != other
        and begin[other] <= begin[one] < begin[other] + lasts[other]
        and max(low[one], low[other]) < min(low[one] + size[one], low[other] + size[other])
    ]
    assert found in meets if meets else found is None


def test_the_sweep_refuses_what_is_empty():
    one = np.array([1])
    for columns in ((one, one, one, one + 1), (one, one + 1, one, one)):
        with pytest.raises(ValueError, match="row 0 is empty"):
            _core.first_overlap(*columns)
    with pytest.raises(ValueError, match="differ in length"):
        _core.first_overlap(one, one + 1, one, np.array([2, 2]))
