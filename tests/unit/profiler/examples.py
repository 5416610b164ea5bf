"""Profiles and recordings for tests."""

import numpy as np
from hypothesis import strategies as st

from pgmo.profiler.profile import NEVER, Profile, ProfileMeta
from pgmo.profiler.recording import EVENT, FREE, REQUEST, STEP, STREAM
from pgmo.profiler.tag import Tag

TAGS = (Tag("Net.conv1", "aten.convolution", "forward"), Tag("Adam", "aten.sqrt", "optimizer"))


def small_profile() -> Profile:
    """Return a profile of six blocks.

    One lives inside of the iteration, one wraps, and one is doubly live. The others are persistent,
    varying and shared.
    """
    return Profile.from_columns(
        size=[64, 100, 4096, 8, 2**33, 512],
        start=[0, 1, 2, 3, 4, 5],
        end=[3, 7, 10, NEVER, 5, 8],
        ticks=6,
        stream=np.array([0, 2**64 - 1, 0, 0, 7, 0], np.uint64),
        thread=[0, 1, 0, 0, 0, 0],
        tag=[0, -1, 1, 0, 1, -1],
        varying=[False, False, False, False, True, False],
        shared=[False, False, False, False, False, True],
        tags=TAGS,
        meta=ProfileMeta(
            "torch", "2.13.0", "0.1.0", "cpu", "Net", "2025-01-01T00:00:00", {"a": "ü"}
        ),
    )


@st.composite
def profiles(draw: st.DrawFn, most: int = 30) -> Profile:
    """Draw a profile with one request in each tick and with blocks of every kind."""
    ticks = draw(st.integers(1, most))
    size = draw(st.lists(st.integers(1, 2**20), min_size=ticks, max_size=ticks))
    life = draw(st.lists(st.integers(0, 2 * ticks), min_size=ticks, max_size=ticks))
    stream = draw(st.lists(st.sampled_from([0, 5]), min_size=ticks, max_size=ticks))
    shared = draw(st.sets(st.integers(0, ticks - 1), max_size=ticks // 3))
    start = np.arange(ticks)
    return Profile.from_columns(
        size=size,
        start=start,
        end=np.where(np.array(life) == 0, NEVER, start + life),
        ticks=ticks,
        stream=stream,
        shared=np.isin(start, list(shared)),
    )


def simulate(profile: Profile, iterations: int) -> np.ndarray:
    """Return the events of a repeated profile; a free precedes the request of its tick."""
    ticks, n = profile.ticks, len(profile)
    due: dict[int, list[int]] = {}
    rows: list[tuple[int, int, int, int]] = []
    for turn in range(iterations):
        for row in range(n):
            now = turn * ticks + row
            # A free at the boundary of two iterations follows the step, except in odd turns.
            rows += [(FREE, block, 0, 0) for block in due.pop(now, [])]
            rows.append((REQUEST, now, int(profile.size[row]), int(profile.stream[row])))
            if profile.shared[row]:
                rows.append((STREAM, now, 0, 0))
            if profile.end[row] != NEVER:
                due.setdefault(turn * ticks + int(profile.end[row]), []).append(now)
        if turn % 2:
            rows += [(FREE, block, 0, 0) for block in due.pop((turn + 1) * ticks, [])]
        rows.append((STEP, 0, 0, 0))
    events = np.zeros(len(rows), EVENT)
    events["tag"] = -1
    for name, column in zip(
        ("kind", "block", "bytes", "stream"), zip(*rows, strict=True), strict=True
    ):
        events[name] = column
    return events


def same(one: Profile, other: Profile) -> bool:
    """Return whether two profiles have equal columns, tags and metadata."""
    from pgmo.profiler.profile import COLUMNS

    names = ("ticks", "circular", "steady", "tags", "meta")
    return all(np.array_equal(getattr(one, c), getattr(other, c)) for c in COLUMNS) and all(
        getattr(one, name) == getattr(other, name) for name in names
    )
