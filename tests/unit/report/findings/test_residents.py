from dataclasses import replace

import pytest

from pgmo.profiler.profile import NEVER, Profile
from pgmo.report.findings.residents import find_residents
from tests.unit.report.loops import TAGS, train

LINE = Profile.from_columns(
    size=[8, 100, 30],
    start=[0, 1, 2],
    end=[2, NEVER, NEVER],
    tag=[0, 2, -1],
    ticks=3,
    circular=False,
    tags=TAGS,
)


def test_parameters_and_optimizer_state_of_a_loop():
    loop = Profile.from_columns(size=[8], start=[0], end=[1], ticks=1, trace=train(6))
    residents = find_residents(loop)
    assert (residents.size, residents.blocks) == (4096 + 8192, 2)
    assert [(one.name, one.size) for one in residents.phases] == [
        ("optimizer", 8192),
        ("(untagged)", 4096),
    ]
    assert sum(one.size for one in residents.files) == residents.size


@pytest.mark.parametrize("trace", [None, train(1)])
def test_a_line_has_its_persistent_blocks_so_that_none_counts_in_its_peak_too(trace):
    residents = find_residents(replace(LINE, trace=trace))
    assert (residents.size, residents.blocks) == (130, 2)
    assert {one.name for one in residents.phases} == {"optimizer", "(untagged)"}


def test_the_only_iteration_of_a_trace_is_not_taken_for_resident():
    loop = Profile.from_columns(size=[8], start=[0], end=[1], ticks=1, trace=train(1))
    assert find_residents(loop).size == 4096


def test_one_iteration_knows_of_no_residents():
    assert find_residents(replace(LINE, circular=True)).size == 0
