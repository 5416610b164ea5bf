from dataclasses import replace

import numpy as np
import pytest

from pgmo.errors import PlanError
from pgmo.packing.plan import UNPLANNED, Plan
from pgmo.packing.planner import plan
from pgmo.packing.validator import validate
from pgmo.profiler.profile import Profile
from tests.unit.profiler.examples import small_profile


@pytest.fixture
def small() -> Plan:
    return plan(Profile.from_columns(size=[64, 32], start=[0, 1], end=[2, 3], ticks=2))


def columns_of(made: Plan) -> dict[str, object]:
    return {name: getattr(made, name) for name in made.__dataclass_fields__}


def test_columns_are_typed_and_read_only(small):
    assert small.offset.dtype == np.int64
    assert small.stream.dtype == np.uint64
    assert small.varying.dtype == np.bool_
    with pytest.raises(ValueError, match="read-only"):
        small.offset[0] = UNPLANNED


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([0], r"column 'offset' has 1 rows, 'size' has 2; give one for"),
        ([[0, 0]], r"column 'offset' has shape \(1, 2\)"),
        ([0.5, 1.5], "column 'offset' holds float64"),
        (np.array([0, 2**63], np.uint64), "row 1: offset 9223372036854775808 does not fit"),
    ],
)
def test_columns_of_other_shapes_and_types_are_refused(small, column, message):
    with pytest.raises(PlanError, match=message):
        Plan(**{**columns_of(small), "offset": np.array(column)})


def test_gap_is_relative_to_the_max_load(small):
    assert Plan(**{**columns_of(small), "arena": 160}).gap == 0.25


def test_plans_inside_have_none_inside(small):
    for nested in (replace(small, others=(small,)), replace(small, opening=small)):
        for change in ({"others": (small, nested)}, {"opening": nested}):
            with pytest.raises(
                PlanError, match="contains plans; pass all of them to the outer plan"
            ):
                replace(small, **change)
    with pytest.raises(PlanError, match=r"'a\.pgmoplan' is given as a plan .*; pass a Plan"):
        replace(small, others=("a.pgmoplan",))


def test_a_plan_made_again_keeps_the_same_blocks_out():
    first = plan(small_profile())
    profile = first.profile()
    assert profile.shared.tolist() == small_profile().shared.tolist()
    again = plan(profile.widened(profile.size + 64))
    validate(again)
    out = first.offset == UNPLANNED
    assert np.flatnonzero(out).tolist() == [3, 5]
    assert np.array_equal(out, again.offset == UNPLANNED)


def test_a_plan_knows_sizes_and_lifetimes_of_its_profile():
    profile = small_profile()
    known = plan(profile).profile()
    assert known.fingerprint == profile.fingerprint
    assert known.load_curve().tolist() == profile.load_curve().tolist()
