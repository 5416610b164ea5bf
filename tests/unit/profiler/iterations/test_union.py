"""One profile for iterations that differ by some requests."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgmo.profiler.iterations.families import families, refine
from pgmo.profiler.iterations.request_pairs import UNPAIRED
from pgmo.profiler.iterations.union import unite, united_families, united_shorter
from pgmo.profiler.profile import NEVER, Profile


def of(sizes, ends, **columns):
    ticks = len(sizes)
    return Profile.from_columns(size=sizes, start=range(ticks), end=ends, ticks=ticks, **columns)


def rows(*ordinals):
    return np.array(ordinals, np.int64)


def test_the_larger_size_and_the_later_end():
    both = unite(of([100, 96, 32], [2, 3, 3]), of([50, 200, 32], [3, 2, 3]), rows(0, 1, 2))
    assert both.size.tolist() == [100, 200, 32]
    assert both.end.tolist() == [3, 3, 3]
    assert both.varying.tolist() == [True, True, False]


def test_headroom_is_for_what_has_grown():
    both = unite(of([100, 96, 32], [2, 3, 3]), of([50, 200, 32], [2, 3, 3]), rows(0, 1, 2), 0.5)
    assert both.size.tolist() == [100, 300, 32]


def test_requests_that_only_one_of_them_has_come_before_the_next_that_both_have():
    both = unite(of([1, 2, 3], [1, 3, 3]), of([1, 7, 3, 8], [4, 2, 3, 4]), rows(0, -1, 2, -1))
    assert both.size.tolist() == [1, 2, 7, 3, 8]
    # The second one is freed at the end of its own iteration, the others where the later one is.
    assert both.end.tolist() == [5, 5, 3, 5, 5]


def test_ends_in_the_next_iteration_move_with_its_requests():
    known = of([1, 2], [3, 4])  # the first lives until the second request of the next iteration
    both = unite(known, of([1, 9, 2], [3, 3, 3]), rows(0, -1, 1))
    assert both.end.tolist()[0] == 3 + 2
    assert both.end.tolist()[2] == 2 * 3


def test_an_end_that_one_of_them_knows_is_known():
    both = unite(of([8, 8], [NEVER, NEVER]), of([8, 8], [1, NEVER]), rows(0, 1))
    assert both.end.tolist() == [1, NEVER]


def test_what_one_of_them_shares_is_shared_and_what_one_leaves_open_is_open():
    known = of([8, 8], [1, 2], shared=[True, False])
    new = of([8, 8], [1, 2], shared=[False, False], steady=False)
    both = unite(known, new, rows(0, 1))
    assert both.shared.tolist() == [True, False]
    assert not both.steady


profiles = st.lists(
    st.tuples(st.integers(1, 9), st.integers(1, 12), st.booleans()), min_size=1, max_size=12
)


def interleaved(known, rows):
    """The union's requests in order: of each its ordinal in the known structure, in the new one."""
    order, added, following = [], [], 0
    for ordinal, row in enumerate([*rows, known]):
        if row == UNPAIRED:
            added.append((None, ordinal))
            continue
        order += [(at, None) for at in range(following, row)] + added
        if row < known:
            order.append((row, ordinal))
        added, following = [], row + 1
    return order


@given(profiles, profiles, st.data())
def test_each_lives_in_the_union_as_it_did(one, other, data):
    def made(blocks):
        ends = [
            NEVER if never else at + min(life, 2 * len(blocks))
            for at, (_, life, never) in enumerate(blocks)
        ]
        return of([size for size, *_ in blocks], ends)

    def ordinals(count, most):
        drawn = st.lists(st.integers(0, count - 1), unique=True, min_size=most, max_size=most)
        return sorted(data.draw(drawn))

    parts = known, new = made(one), made(other)
    pairs = data.draw(st.integers(0, min(len(one), len(other))))
    rows = np.full(len(other), UNPAIRED)
    rows[ordinals(len(other), pairs)] = ordinals(len(one), pairs)
    both = unite(known, new, rows)

    order = interleaved(len(one), rows)
    assert len(both) == both.ticks == len(order)
    least, most = [NEVER] * len(both), [NEVER] * len(both)
    for number, part in enumerate(parts):
        place = [at for at, ordinal in enumerate(order) if ordinal[number] is not None]
        tick = [turn * len(both) + at for turn in range(4) for at in place]
        for row, at in enumerate(place):
            assert both.size[at] >= part.size[row]
            if part.end[row] != NEVER:  # it is there at the last request before its end, not later
                least[at] = max(least[at], tick[part.end[row] - 1] + 1)
                most[at] = max(most[at], tick[part.end[row]])
    assert np.all(both.end >= least)
    assert np.all(both.end <= most)


# --- families -----------------------------------------------------------------------------------


def test_one_size_on_one_stream_is_one_family():
    size, stream = np.array([8, 4, 8, 8]), np.array([0, 0, 0, 1], np.uint64)
    one = families(size, stream)
    assert one[0] == one[2]
    assert len(set(one.tolist())) == 3


def test_an_iteration_tells_families_apart_for_good():
    one = families(np.array([8, 8, 8, 8]), np.zeros(4, np.uint64))
    two = refine(one, rows(0, 1, 2, 3), np.array([6, 7, 6, 7]))
    three = refine(two, rows(0, 1, 2, 3), np.array([5, 5, 5, 5]))
    assert two.tolist() == three.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize("size", [[6, 7, 7], [7, 6, 7]])
def test_what_is_left_out_stays_with_most_of_its_family(size):
    one = refine(np.zeros(4, np.uint32), rows(0, 1, 2), np.array(size))
    assert one[3] == one[2]


def test_new_requests_are_families_of_their_own():
    family = united_families(np.zeros(2, np.uint32), rows(0, -1, 1, -1), np.array([6, 3, 6, 3]))
    assert family.tolist() == [0, 1, 0, 1]


def test_the_shorter_iteration_is_the_new_one_or_the_one_before():
    known, new = np.array([100, 96, 32]), np.array([50, 48, 32])
    assert united_shorter(np.zeros_like(known), known, rows(0, 1, 2), new).tolist() == [50, 48, 32]
    assert united_shorter(np.zeros_like(new), new, rows(0, 1, 2), known).tolist() == [50, 48, 32]


def test_the_shortest_iteration_stays():
    shorter, known = np.array([10, 12, 32]), np.array([100, 96, 32])
    longer, shortest = np.array([150, 144, 32]), np.array([5, 6, 32])
    assert united_shorter(shorter, known, rows(0, 1, 2), longer).tolist() == [10, 12, 32]
    assert united_shorter(shorter, known, rows(0, 1, 2), shortest).tolist() == [5, 6, 32]


def test_what_only_one_of_them_has_has_one_size():
    known, new = np.array([100, 7, 96]), np.array([50, 9, 48])
    assert united_shorter(np.zeros_like(known), known, rows(0, -1, 2), new).tolist() == [
        50,
        0,
        0,
        48,
    ]
    assert united_shorter(np.zeros_like(new), new, rows(0, -1, 2), known).tolist() == [50, 0, 0, 48]


def test_iterations_of_one_length_tell_nothing():
    sizes = np.array([100, 96])
    assert united_shorter(np.zeros_like(sizes), sizes, rows(0, 1), sizes) is None
