import csv
import io

from pgmo.packing.planner import plan
from pgmo.profiler.profile import Profile
from pgmo.profiler.tag import Tag
from pgmo.report.exporters.spreadsheet import write_spreadsheet
from tests.unit.profiler.examples import small_profile


def table(source):
    out = io.StringIO()
    write_spreadsheet(source, out)
    return list(csv.DictReader(io.StringIO(out.getvalue())))


def test_every_block_of_a_profile_has_a_line_with_its_origin():
    profile = small_profile()
    rows = table(profile)
    for name in ("size", "start", "stream", "thread"):
        assert [int(row[name]) for row in rows] == getattr(profile, name).tolist()
    assert [row["end"] for row in rows] == ["3", "7", "10", "", "5", "8"]
    assert [row["module"] for row in rows] == ["Net.conv1", "", "Adam", "Net.conv1", "Adam", ""]
    assert [row["varying"] for row in rows] == ["0", "0", "0", "0", "1", "0"]
    assert [row["block"] for row in rows] == list("012345")


def test_a_plan_has_offsets_where_it_has_slots():
    made = plan(small_profile())
    rows = table(made)
    assert [int(row["offset"] or -1) for row in rows] == made.offset.tolist()
    assert [int(row["alternate"] or -1) for row in rows] == made.alternate.tolist()
    assert "" in [row["offset"] for row in rows]  # the persistent and the shared block


def test_odd_names_survive():
    odd = Tag('a,"b"', "ü\nx", "forward", file="train.py:31 in f")
    profile = Profile.from_columns(size=[1], start=[0], end=[1], ticks=1, tag=[0], tags=(odd,))
    (row,) = table(profile)
    assert (row["module"], row["op"], row["file"]) == (odd.module, odd.op, odd.file)


def test_no_blocks_are_a_header():
    out = io.StringIO()
    write_spreadsheet(Profile.from_columns(size=[], start=[], end=[], ticks=0), out)
    (header,) = out.getvalue().splitlines()
    assert header.startswith("block,size,start,end,stream,")
