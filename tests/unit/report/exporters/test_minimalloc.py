import io
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from pgmo.errors import OptionError
from pgmo.packing.csv_file import read_csv
from pgmo.packing.planner import plan
from pgmo.profiler.profile import Profile
from pgmo.report.exporters.minimalloc import write_minimalloc
from tests.unit.profiler.examples import profiles, small_profile


def written(source, **options):
    out = io.StringIO()
    notes = write_minimalloc(source, out, **options)
    return out.getvalue().splitlines(), notes


def test_blocks_of_every_kind():
    lines, notes = written(replace(small_profile(), stream=np.zeros(6, np.uint64)))
    assert lines == [
        "id,lower,upper,size",
        "0,0,3,64",
        "1,1,6,128",  # wraps
        "1.1,0,1,128",
        "2,0,6,4096",  # outlives a period: two slots
        "2.1,0,6,4096",
        f"4,4,5,{2**33}",
    ]
    assert notes == [
        "1 block lives into the next iteration and is cut into two pieces",
        "1 block outlives a period: two whole slots each",
        "2 blocks are persistent or shared and left out",
        "sizes are rounded up to 64 bytes",
    ]


def test_a_plan_has_offsets():
    profile = Profile.from_columns(size=[64, 64], start=[0, 1], end=[1, 3], ticks=2)
    made = plan(profile)
    lines, _ = written(made)
    assert lines[0] == "id,lower,upper,size,offset"
    offsets = [int(line.split(",")[-1]) for line in lines[1:]]
    assert offsets == [made.offset[0], made.offset[1], made.offset[1]]


def test_one_stream_of_several():
    profile = small_profile()
    lines, notes = written(profile, stream=7)
    assert lines[1:] == [f"4,4,5,{2**33}"]
    assert not any("streams" in note for note in notes)
    _, notes = written(profile)
    assert any(note.startswith("the blocks of 3 streams") for note in notes)
    with pytest.raises(OptionError, match=r"no block to place on stream 3 \(streams: \[0, 7"):
        written(profile, stream=3)


def test_a_plan_keeps_its_alignment():
    with pytest.raises(OptionError, match="cannot be 32: this plan's offsets are multiples of 64"):
        written(plan(small_profile()), alignment=32)
    with pytest.raises(OptionError, match="cannot be 0: give 1"):
        written(small_profile(), alignment=0)


@settings(max_examples=30, deadline=None)
@given(profile=profiles())
def test_the_load_of_the_problem_is_that_of_the_profile(profile, tmp_path_factory):
    planned = profile.turns == 1  # those with two slots count twice as long
    profile = replace(profile, shared=~planned)
    if not planned.any():
        return
    path = tmp_path_factory.mktemp("m") / "problem.csv"
    path.write_text("\n".join(written(profile)[0]) + "\n")
    assert plan(read_csv(path).problem, solver="best-fit").max_load == profile.max_load(64)


@settings(max_examples=30, deadline=None)
@given(profile=profiles())
def test_without_wrapping_the_problem_needs_the_arena_of_the_plan(profile, tmp_path_factory):
    line = replace(
        profile,
        end=np.minimum(profile.end, profile.ticks),
        stream=np.zeros(len(profile), np.uint64),
        circular=False,
    )
    if not (line.turns > 0).any():
        return
    path = tmp_path_factory.mktemp("m") / "problem.csv"
    path.write_text("\n".join(written(line)[0]) + "\n")
    assert plan(read_csv(path).problem).arena == plan(line).arena
