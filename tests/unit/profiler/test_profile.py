import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgmo.errors import ProfileError
from pgmo.profiler.profile import NEVER, Profile
from tests.unit.profiler.examples import profiles, small_profile


def test_kinds_of_blocks():
    profile = small_profile()
    assert profile.persistent.tolist() == [False, False, False, True, False, False]
    assert profile.wrap.tolist() == [False, True, True, False, False, True]
    assert profile.turns.tolist() == [1, 1, 2, 0, 1, 0]
    assert len(profile) == 6
    assert "6 blocks, 6 ticks" in repr(profile)
    assert "1 persistent, 1 shared, 1 varying" in repr(profile)
    planned = dataclasses.replace(profile, shared=np.zeros(6, bool))
    assert "shared" not in repr(planned)
    assert planned.turns.tolist() == [1, 1, 2, 0, 1, 1]


def _load_by_hand(profile: Profile, alignment: int) -> list[int]:
    """Return the load in bytes at each tick of the fourth of seven iterations, block by block."""
    load = []
    for tick in range(profile.ticks):
        now = 3 * profile.ticks + tick
        live = 0
        columns = (profile.size, profile.start, profile.end, profile.shared)
        for size, start, end, shared in zip(*columns, strict=True):
            for turn in range(7 * (not shared)):
                low, high = start + turn * profile.ticks, end + turn * profile.ticks
                if end != NEVER and low <= now < high:
                    live += -(-int(size) // alignment) * alignment
        load.append(live)
    return load


@given(profiles(12), st.sampled_from([1, 64, 512]))
def test_load_is_what_counting_gives(profile, alignment):
    expected = _load_by_hand(profile, alignment)
    assert profile.load_curve(alignment).tolist() == expected
    assert profile.max_load(alignment) == max(expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": [4, 0]}, "row 1: size is 0, must be above 0"),
        ({"size": [-4, 4]}, "row 0: size is -4"),
        ({"size": [2**50, 4]}, "row 0: size is 1125899906842624"),
        ({"size": [4.5, 4]}, "'size' holds float64"),
        ({"size": [4]}, "has 2 rows, 'size' has 1"),
        ({"start": [0, 2], "ordinal": [0, 1]}, "row 1: start is 2"),
        ({"end": [0, 2]}, r"row 0: end is 0 \(start 0\)"),
        ({"end": [-2, 2]}, "row 0: end is -2"),
        ({"end": [5, 2]}, "row 0: end is 5"),
        ({"end": [3, 2], "circular": False}, "row 0: end is 3"),
        ({"tag": [0, -1]}, "row 0: tag is 0"),
        ({"tag": [-2, -1]}, "row 0: tag is -2"),
        ({"ordinal": [0, 9]}, "row 1: ordinal is 9"),
        ({"stream": [-1, 0]}, "row 0: stream -1 does not fit"),
        ({"ticks": -1}, "ticks is -1"),
        ({"ticks": 2**40}, "ticks is"),
        ({"size": [[4, 4]]}, "shape"),
    ],
)
def test_contradictions_are_refused(change, message):
    good = {"size": [4, 4], "start": [0, 1], "end": [1, 2], "ticks": 2}
    Profile.from_columns(**good)
    with pytest.raises(ProfileError, match=message):
        Profile.from_columns(**{**good, **change})


def test_sizes_that_overflow_when_added_are_refused():
    n = 2**14
    start = np.arange(n)
    with pytest.raises(ProfileError, match=r"2\*\*61"):
        Profile.from_columns(size=np.full(n, 2**48), start=start, end=start + 1, ticks=n)


def test_columns_are_read_only_and_the_given_array_is_not_touched():
    size = np.array([4, 4])
    profile = Profile.from_columns(size=size, start=[0, 1], end=[1, 2], ticks=2)
    with pytest.raises(ValueError, match="read-only"):
        profile.size[0] = 5
    size[0] = 5
    assert size.flags.writeable


def test_fingerprint_depends_on_requests_only():
    profile = small_profile()
    longer = np.where(np.arange(6) == 0, 4, profile.end)
    assert dataclasses.replace(profile, end=longer).fingerprint == profile.fingerprint
    wider = dataclasses.replace(profile, size=profile.size + 1)
    fixed = dataclasses.replace(profile, varying=np.zeros(6, bool))
    other = dataclasses.replace(profile, stream=np.zeros(6, np.uint64))
    prints = {p.fingerprint for p in (profile, wider, fixed, other)}
    assert len(prints) == 4
    assert all(len(text) == 64 for text in prints)
    nowhere = dataclasses.replace(profile, shared=np.ones(6, bool))
    assert nowhere.fingerprint == profile.fingerprint


def test_widened_takes_the_larger_sizes():
    profile = Profile.from_columns(size=[4, 8], start=[0, 1], end=[1, 2], ticks=2)
    wide = profile.widened([6, 2])
    assert wide.size.tolist() == [6, 8]
    assert wide.varying.tolist() == [True, False]
    with pytest.raises(ProfileError, match="3 sizes for 2 blocks"):
        profile.widened([1, 2, 3])
