"""Requests of one program at two sizes are paired, also where some are missing on either side."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmo.profiler.extrapolation.same_requests import ABSENT, counterparts
from pgmo.profiler.profile import NEVER, Profile
from pgmo.profiler.tag import Tag

OPERATORS = ("aten.mm", "aten.gelu", "aten.add", "aten.convolution_backward")


def loop(batch, layers=12):
    """Sizes, ends and tags of a forward and a backward pass."""
    rows, tags = [], []
    total = 4 * layers
    for at in range(total):
        layer, kind = divmod(at, 4)
        size = (96 * (layer + 1), 40 * batch * (layer % 3 + 1), 64 * batch, 8)[kind]
        rows.append((size, (total + layer, 2 * total - 4 * layer, at + 1, NEVER)[kind]))
        tags.append(Tag(f"Net.{layer}", OPERATORS[kind], "forward"))
    return rows, tags


def without(batch, missing, tagged=True):
    """The profile of the loop less some of its requests; the kept rows, too."""
    rows, tags = loop(batch)
    kept = [at for at in range(len(rows)) if at not in missing]
    before = np.cumsum([0, *(at not in missing for at in range(len(rows)))])
    ends = []
    for number, at in enumerate(kept):
        turns, within = divmod(rows[at][1], len(rows))
        end = NEVER if rows[at][1] == NEVER else turns * len(kept) + int(before[within])
        ends.append(end if end == NEVER else max(end, number + 1))
    distinct = tuple(dict.fromkeys(tags))
    return kept, Profile.from_columns(
        size=[rows[at][0] for at in kept],
        start=range(len(kept)),
        end=ends,
        ticks=len(kept),
        tag=[distinct.index(tags[at]) for at in kept] if tagged else None,
        tags=distinct if tagged else (),
    )


@settings(max_examples=40, deadline=None)
@given(st.sets(st.integers(0, 47), max_size=5), st.sets(st.integers(0, 47), max_size=5))
def test_whatever_is_missing_the_others_find_each_other(missing, lacking):
    kept, large = without(8, missing)
    there, small = without(2, lacking)
    wanted = [there.index(at) if at in there else ABSENT for at in kept]
    assert counterparts(large, (8,), small, (2,)).row.tolist() == wanted


def test_without_origins_sizes_do():
    kept, large = without(8, ())
    there, small = without(2, {9, 22}, tagged=False)
    large = Profile.from_columns(size=large.size, start=large.start, end=large.end, ticks=48)
    row = counterparts(large, (8,), small, (2,)).row
    assert np.mean([row[at] == (there.index(at) if at in there else ABSENT) for at in kept]) > 0.9


def test_two_that_have_changed_places_are_pairs():
    _, large = without(8, ())
    _, small = without(2, ())
    order = [*range(20), 21, 20, *range(22, 48)]
    columns = {name: getattr(small, name)[order] for name in ("size", "tag")}
    end = np.maximum(small.end[order], np.where(small.end[order] == NEVER, NEVER, range(1, 49)))
    swapped = Profile.from_columns(**columns, start=range(48), end=end, ticks=48, tags=small.tags)
    assert counterparts(large, (8,), swapped, (2,)).row.tolist() == order


def test_ends_are_told_by_the_clock_of_the_reference():
    kept, large = without(8, {30})
    _, small = without(2, {5, 6})
    pairs = counterparts(large, (8,), small, (2,))
    ends = pairs.ends(small)
    both = pairs.row != ABSENT
    # Never later than it is, and earlier by what the smaller one lacks at most.
    assert np.all(ends[both] <= large.end[both])
    assert np.all((large.end - ends)[both] <= 2)
    assert [kept[at] for at in np.flatnonzero(~both)] == [5, 6]


@pytest.mark.parametrize("count", [0, 1])
def test_nothing_has_no_counterparts(count):
    empty = Profile.from_columns(size=[], start=[], end=[], ticks=0)
    one = Profile.from_columns(size=[8] * count, start=range(count), end=[1] * count, ticks=count)
    assert counterparts(one, (8,), empty, (2,)).row.tolist() == [ABSENT] * count
    assert counterparts(empty, (8,), one, (2,)).row.tolist() == []
