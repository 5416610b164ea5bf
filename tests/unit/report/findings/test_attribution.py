import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgmo.errors import OptionError
from pgmo.profiler.profile import NEVER, Profile
from pgmo.profiler.tag import Tag
from pgmo.report.blocks.origins import names_of
from pgmo.report.findings.attribution import alive, find_peak
from tests.unit.profiler.examples import profiles

TAGS = (Tag("Net.a", "aten.mm", "forward"), Tag("Net.b", "aten.mm", "backward"))


def simulated(profile: Profile, tick: int) -> list[int]:
    """Return the live copies of each block at a tick of the fourth iteration, turn by turn."""
    now = 3 * profile.ticks + tick
    copies = []
    columns = (profile.start.tolist(), profile.end.tolist(), profile.shared.tolist())
    for start, end, shared in zip(*columns, strict=True):
        turns = [turn * profile.ticks for turn in range(0 if shared or end == NEVER else 4)]
        copies.append(sum(start + t <= now < end + t for t in turns))
    return copies


@given(profiles())
def test_copies_alive_agree_with_iterations_played_through(profile):
    for tick in range(profile.ticks):
        assert alive(profile, tick).tolist() == simulated(profile, tick)


@given(profiles())
def test_the_peak_is_the_max_load_and_its_holders_add_up_to_it(profile):
    peak = find_peak(profile, top=100)
    assert peak.size == profile.max_load()
    assert peak.size == int((alive(profile, peak.tick) * profile.size).sum())
    for holders in peak.holders.values():
        assert sum(holder.size for holder in holders) == peak.size
        assert sum(holder.blocks for holder in holders) == peak.blocks
        assert list(holders) == sorted(holders, key=lambda one: (-one.size, one.name))


def test_holders_are_named_and_cut_to_the_largest():
    profile = Profile.from_columns(
        size=[5, 7, 1], start=[0, 1, 2], end=[3, 3, 3], ticks=3, tag=[0, 1, -1], tags=TAGS
    )
    peak = find_peak(profile, top=2)
    assert [(one.name, one.size, one.blocks) for one in peak.modules] == [
        ("Net.b", 7, 1),
        ("Net.a", 5, 1),
        ("(others)", 1, 1),
    ]
    assert [(one.name, one.size) for one in peak.operators] == [("aten.mm", 12), ("(untagged)", 1)]
    assert [(one.name, one.size) for one in peak.sizes] == [("4 B to 8 B", 12), ("1 B to 2 B", 1)]
    assert [(one.name, one.blocks) for one in peak.streams] == [("stream 0", 3)]


@given(profiles(), st.integers(1, 3))
def test_a_list_that_is_cut_still_adds_up(profile, top):
    peak = find_peak(profile, top)
    for holders in peak.holders.values():
        assert len(holders) <= top + 1
        assert sum(holder.size for holder in holders) == peak.size
        assert sum(holder.blocks for holder in holders) == peak.blocks


def test_an_unknown_way_of_grouping_is_refused():
    profile = Profile.from_columns(size=[1], start=[0], end=[1], ticks=1)
    with pytest.raises(OptionError, match="cannot be grouped by 'colour'; choose one of module"):
        names_of(profile, "colour")


def test_an_empty_profile_has_no_peak():
    none = np.zeros(0, np.int64)
    assert find_peak(Profile.from_columns(size=none, start=none, end=none, ticks=0)).size == 0
