import dataclasses

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pgmo.profiler.iterations.iteration_kinds import compare
from pgmo.profiler.iterations.lifetimes import Steady, build_profile
from pgmo.profiler.iterations.request_pairs import align
from pgmo.profiler.iterations.step_finder import best_effort, find_all, find_steady
from pgmo.profiler.profile import NEVER
from pgmo.profiler.recording import FREE, REQUEST, STEP, make_events, split
from pgmo.profiler.tag import Tag
from tests.unit.profiler.examples import profiles, simulate


def _profile(rows):
    iterations = split(make_events(rows))
    return build_profile(iterations, find_steady(iterations))


def _repeat(one_iteration, times):
    """Return the rows of iterations; blocks of `one_iteration(turn)` are numbered over all."""
    return [row for turn in range(times) for row in [*one_iteration(turn), ("step",)]]


@given(profiles(), st.integers(4, 6))
def test_a_simulated_profile_is_found_again(profile, iterations):
    recorded = split(simulate(profile, iterations))
    steady = find_steady(recorded)
    found = build_profile(recorded, steady)
    assert steady.kind == "exact"
    for name in ("size", "start", "end", "stream", "varying", "shared"):
        assert getattr(found, name).tolist() == getattr(profile, name).tolist(), name
    assert found.steady
    assert found.ticks == profile.ticks


@given(profiles(12), profiles(12))
def test_another_structure_in_between_takes_no_time(a, b):
    """Requests of B between two iterations of A do not lengthen lifetimes of A."""
    iterations = split(_interleave(simulate(a, 4), simulate(b, 4)))
    assume(compare(iterations[0], iterations[1]).kind == "none")
    (steady,) = (steady for steady in find_all(iterations) if steady.reference == 0)
    assert sorted(steady.rows) == [0, 2, 4, 6]
    assert build_profile(iterations, steady).end.tolist() == a.end.tolist()


def _interleave(first, second):
    """Alternate the iterations of two recordings, with new numbers of blocks."""
    out, blocks, count = [], ({}, {}), 0
    parts = [
        np.split(events, np.flatnonzero(events["kind"] == STEP) + 1) for events in (first, second)
    ]
    for turn in range(4):
        for which in (0, 1):
            for event in parts[which][turn]:
                event = event.copy()
                if event["kind"] == REQUEST:
                    blocks[which][int(event["block"])] = count
                    event["block"] = count
                    count += 1
                elif event["kind"] == FREE:
                    event["block"] = blocks[which][int(event["block"])]
                out.append(event)
    return np.array(out, first.dtype)


def test_the_envelope_over_shapes():
    """A plan has the largest size and the latest free of all iterations."""

    def iteration(t):
        size, base = (100, 60, 80)[t], 4 * t
        early = [("free", base)] if t != 1 else []
        late = [("free", base)] if t == 1 else []
        return [
            *[("request", 8), ("request", size), *early, ("request", 16)],
            *[*late, ("request", 24), *[("free", base + k) for k in (1, 2, 3)]],
        ]

    iterations = split(make_events(_repeat(iteration, 3)))
    steady = find_steady(iterations)
    profile = build_profile(iterations, steady)
    assert steady.kind == "fit"
    assert profile.size.tolist() == [8, 100, 16, 24]
    assert profile.varying.tolist() == [False, True, False, False]
    assert profile.end.tolist() == [3, 4, 4, 4]


def test_nothing_agrees():
    rows = _repeat(lambda t: [("request", 8 + t), ("request", 64 + t), ("free", 2 * t)], 3)
    iterations = split(make_events(rows))
    assert find_steady(iterations) is None
    steady = best_effort(iterations)
    profile = build_profile(iterations, steady)
    assert not profile.steady
    assert steady.reference == 1
    assert steady.explanation == "request 0 asks for 9 B in iteration 1, 10 B in iteration 2"
    assert profile.size.tolist() == [9, 65]
    assert profile.end.tolist() == [2, NEVER]


def test_tags_come_from_an_iteration_that_has_requests_of_its_own():
    sizes = [8, 16, 32, 64, 128]
    extra = [8, 16, 24, 32, 64, 128]

    def iteration(t):
        return [("request", size) for size in (extra if t == 0 else sizes)]

    events = make_events(_repeat(iteration, 4))
    events["tag"][:6] = [0, 1, 2, 3, 4, 5]
    tags = [Tag(str(size), "aten.add", "forward") for size in extra]
    iterations = split(events)
    steady = find_steady(iterations)
    profile = build_profile(iterations, steady, tags)
    assert (steady.reference, sorted(steady.rows)) == (1, [1, 2, 3])
    assert [profile.tags[tag].module for tag in profile.tag] == [str(size) for size in sizes]
    again = build_profile(iterations, dataclasses.replace(steady, rows={1: np.arange(5)}), tags)
    assert again.tag.tolist() == profile.tag.tolist()


def test_a_recording_that_begins_late_names_requests_of_equal_sizes_rightly():
    """The first of four equal requests precedes the recording, so tags begin with the second."""

    def iteration(t):
        return [("request", 64)] * (3 if t == 0 else 4) + [("request", 8)]

    events = make_events(_repeat(iteration, 4))
    events["tag"][:4] = [0, 1, 2, 3]
    tags = [Tag(name, "aten.add", "forward") for name in ("first", "second", "third", "loss")]
    iterations = split(events)
    profile = build_profile(iterations, find_steady(iterations), tags)
    assert profile.tag.tolist() == [-1, 0, 1, 2, 3]


def test_blocks_born_in_the_first_iteration_lend_no_tags():
    """Optimizer state has the sizes of temporaries that are requested after it."""
    sizes = [8, 16, 32, 64, 128, 9, 17, 33, 500, 600]
    state = [("request", 500), ("request", 600)]
    rows = []
    for turn in range(4):
        requests = [("request", size) for size in sizes]
        requests[-2:-2] = state if turn == 0 else []
        first = sum(row[0] == "request" for row in rows)
        freed = [n for n in range(len(requests)) if turn or n not in (8, 9)]
        rows += [*requests, *[("free", first + n) for n in freed], ("step",)]
    events = make_events(rows)
    requested = [row for row, event in enumerate(rows) if event[0] == "request"][:12]
    events["tag"][requested] = range(12)
    tags = [Tag(str(number), "aten.add", "optimizer") for number in range(12)]
    iterations = split(events)
    profile = build_profile(iterations, find_steady(iterations), tags)
    assert profile.tag.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 10, 11]


@pytest.mark.parametrize("turn", [1, 2, 3])
def test_a_block_that_any_iteration_shares_is_shared(turn):
    """Iteration 0 has tags and one more request; iteration 1 is the reference."""
    blocks = 3 * turn + (turn > 0)

    def iteration(t):
        extra = [("request", 24)] if t == 0 else []
        shared = [("shared", blocks + 1)] if t == turn else []
        return [("request", 8), ("request", 16), *shared, ("request", 32), *extra]

    events = make_events(_repeat(iteration, 4))
    events["tag"][:2] = 0
    iterations = split(events)
    steady = find_steady(iterations)
    profile = build_profile(iterations, steady, [Tag("", "aten.add", "forward")])
    assert (steady.reference, sorted(steady.rows)) == (1, [1, 2, 3])
    assert profile.shared.tolist() == [False, True, False]


def test_the_end_of_a_shared_block_is_reported():
    def iteration(t):
        return [("request", 8), ("shared", 2 * t), ("request", 4), ("free", 2 * t)]

    profile = _profile(_repeat(iteration, 4))
    assert profile.shared.tolist() == [True, False]
    assert profile.end.tolist() == [2, NEVER]


# --- members with fewer requests ----------------------------------------------------------------


def _members(*turns):
    """Return the profile of iterations, the first of which is the reference.

    An iteration is a list of sizes in bytes and of frees ("free", block).
    """
    rows = []
    for requests in turns:
        rows += [("request", one) if isinstance(one, int) else one for one in requests]
        rows.append(("step",))
    iterations = split(make_events(rows))
    paired = {at: align(iterations[0], one) for at, one in enumerate(iterations)}
    varying = np.ones(len(iterations[0]), np.bool_)
    steady = Steady("fit", 0, paired, varying, len(iterations) - 1, "as reported")
    return build_profile(iterations, steady)


def test_shorter_members_do_not_change_sizes():
    """Requests of shorter members are paired by similarity, which may be wrong."""
    full = _members([100, 8, 300], [200, 8, 300])
    assert full.size.tolist() == [200, 8, 300]
    mixed = _members([100, 8, 300], [200, 8, 300], [999, 8])
    assert mixed.size.tolist() == [200, 8, 300]


def test_shorter_members_do_not_change_lifetimes_of_full_ones():
    first = [64, 32, ("free", 0), 16, ("free", 1), ("free", 2)]
    again = [64, 32, ("free", 3), 16, ("free", 4), ("free", 5)]
    late = [64, 16, ("free", 6), ("free", 7)]  # no 32, so that the first block lives until the end
    assert _members(first, again).end.tolist() == [2, 3, 3]
    assert _members(first, again, late).end.tolist() == [2, 3, 3]


def test_shorter_members_add_lifetimes_unknown_to_full_ones():
    """Only a shorter iteration follows the last full one, and it frees blocks of that one."""
    first = [64, 32, ("free", 0), 16, ("free", 2)]
    short = [64, ("free", 1), 16, ("free", 3), ("free", 4)]
    profile = _members(first, short)
    assert profile.end[[0, 2]].tolist() == [2, 3]
    assert profile.wrap.tolist() == [False, True, False]
    # No full iteration frees the block of 64 or of 32, but the shorter one frees its own.
    kept = _members([64, 32, 16, ("free", 2)], [64, 32, ("free", 3), ("free", 4)])
    assert kept.end[0] == 3
    assert kept.end[1] == 3
