"""Files of an earlier pgmo are read: those beside this were written by the code of 833999f.

That is the last state before the packages were regrouped. Files are never written anew: for a
version whose format differs come others.
"""

from pathlib import Path

from pgmo.packing.plan import UNPLANNED, Plan
from pgmo.packing.validator import validate
from pgmo.profiler.profile import NEVER, Profile, ProfileMeta
from pgmo.profiler.tag import Tag
from pgmo.profiler.trace import Event

FILES = Path(__file__).parent / "earlier_files"
META = ProfileMeta("torch", "2.13.0", "0.1.0", "cuda:0", "Net", "2026-11-22", notes={"batch": "8"})


def columns(table, *names):
    return {name: getattr(table, name).tolist() for name in names}


def test_a_profile():
    profile = Profile.load(FILES / "profile.pgmoprof")
    calls = ("train.py:31 in forward", "train.py:9 in main")
    expected = Profile.from_columns(
        size=[4096, 512, 1 << 20, 64, 100, 8],
        start=[0, 1, 2, 3, 4, 5],
        end=[4, 7, 11, NEVER, 6, 6],
        ticks=6,
        stream=[0, 0, 0, 0, 7, 0],
        thread=[0, 0, 1, 0, 0, 0],
        tag=[0, 1, -1, -1, 0, 1],
        ordinal=range(6),
        shared=[False] * 5 + [True],
        address=[4096, 8192, 1 << 20, 1 << 21, 16384, 0],
        tags=(
            Tag("Net.0", "aten.addmm", "forward", calls[0], calls),
            Tag("Net.0", "aten.mm", "backward"),
        ),
        meta=META,
    )
    names = ("size", "start", "end", "stream", "thread", "tag", "ordinal", "varying", "shared")
    assert columns(profile, *names, "address") == columns(expected, *names, "address")
    assert profile.fingerprint == expected.fingerprint
    assert profile.fingerprint.startswith("02df0ddbb4e3354e")
    assert profile.tags == expected.tags
    assert profile.meta == META
    assert (profile.ticks, profile.circular, profile.steady) == (6, True, True)


def test_a_profile_with_its_trace():
    profile = Profile.load(FILES / "traced.pgmoprof")
    assert (len(profile), profile.ticks, profile.max_load(512)) == (9, 9, 9661440)
    assert profile.fingerprint.startswith("0da8644e311efb57")
    assert profile.meta.notes["iterations"] == "6 of 9 requests, found by their period"
    trace = profile.trace
    assert trace is not None
    assert (len(trace), int((trace.kind == Event.ALLOC).sum())) == (168, 58)


def test_a_plan_with_those_it_brings_along():
    plan = Plan.load(FILES / "plan.pgmoplan")
    for one in (plan, *plan.inner):
        validate(one)
        assert one.meta == META
        assert one.alignment == 512
        assert (one.solver, one.optimal) == ("best-fit", True)
    assert columns(plan, "offset", "alternate") == {
        "offset": [2097664, 2097152, 0, UNPLANNED, 2101760, UNPLANNED],
        "alternate": [UNPLANNED, UNPLANNED, 1 << 20, UNPLANNED, UNPLANNED, UNPLANNED],
    }
    assert (plan.arena, plan.bound, plan.max_load) == (2102272, 2102272, 2101760)
    assert plan.fingerprint == Profile.load(FILES / "profile.pgmoprof").fingerprint
    opening, (other,) = plan.opening, plan.others
    assert opening is not None
    assert columns(opening, "size", "start", "end", "offset") == {
        "size": [64, 32],
        "start": [0, 1],
        "end": [2, 2],
        "offset": [0, 512],
    }
    assert not opening.circular
    assert columns(other, "size", "start", "end", "offset") == {
        "size": [4096, 1024],
        "start": [0, 1],
        "end": [1, 2],
        "offset": [0, 0],
    }
    assert other.circular
