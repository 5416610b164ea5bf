"""Profiles of single iterations, from what is known of another structure of the same program."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pgmo.packing.planner import plan
from pgmo.packing.validator import validate
from pgmo.profiler.iterations.one_shot import profile_iteration
from pgmo.profiler.profile import NEVER, Profile
from pgmo.profiler.recording import make_events, split
from pgmo.profiler.tag import Tag


def iterations(*turns):
    """Each turn is a list of sizes to ask for, and of ("free" or "shared", number of a block)."""
    rows = []
    for turn in turns:
        rows += [("request", one) if isinstance(one, int) else one for one in turn]
        rows.append(("step",))
    return split(make_events(rows))


def one(*turn):
    return iterations(turn)[0]


# Two activations, and two gradients that the next iteration frees after its first request and its
# second one.
REQUESTS = one(64, 96, 32, 48)
KNOWN = Profile.from_columns(
    size=[64, 96, 32, 48],
    start=[0, 1, 2, 3],
    end=[3, 3, 5, 6],
    tag=[0, 0, 1, -1],
    ticks=4,
    tags=(Tag("net", "mm", "forward"), Tag("net", "mm", "backward")),
)


def test_blocks_that_die_in_the_iteration_have_the_lifetimes_that_were_seen():
    made = profile_iteration(one(64, 7, ("free", 1), 96, ("free", 0), 32, 48), KNOWN, REQUESTS)
    assert made.end[:2].tolist() == [3, 2]
    assert made.ticks == 5
    assert made.circular


def test_wrapping_blocks_live_as_long_as_their_counterparts():
    # An 11 in between that the known structure lacks: "before the second request", 96, is now
    # "before the third".
    made = profile_iteration(one(64, 11, ("free", 1), 96, 32, ("free", 0), 48), KNOWN, REQUESTS)
    assert made.size.tolist() == [64, 11, 96, 32, 48]
    assert made.end[3:].tolist() == [5 + 2, 5 + 3]
    assert made.wrap.tolist() == [False, False, False, True, True]


def test_wrapping_blocks_when_the_request_before_which_they_die_is_left_out():
    # 64 and 96 do not come: both gradients die before the next one that does, the first here.
    made = profile_iteration(one(32, 48), KNOWN, REQUESTS)
    assert made.end.tolist() == [2, 2]
    assert made.steady


def test_a_counterpart_that_outlives_a_period_takes_two_turns_here_too():
    known = Profile.from_columns(size=[64, 4, 32], start=[0, 1, 2], end=[3, 5, 3], ticks=3)
    assert known.turns.tolist() == [1, 2, 1]
    requests = one(64, 4, 32)
    recorded = one(64, 4, ("free", 0), 9, ("free", 2), 32, ("free", 3))
    made = profile_iteration(recorded, known, requests)
    assert made.turns.tolist() == [1, 2, 1, 1]
    # Rebound: it dies after its successor was asked for, before the request behind that one.
    assert made.end[1] == 4 + 3
    assert made.end[1] - made.start[1] > made.ticks


def test_blocks_that_die_before_the_next_iteration_begins_do_so_here_too():
    """Gradients that `zero_grad` drops at the very top of a loop."""
    known = Profile.from_columns(size=[64, 32, 16], start=[0, 1, 2], end=[2, 3, 3], ticks=3)
    made = profile_iteration(one(64, 8, ("free", 1), 32, 16, ("free", 0)), known, one(64, 32, 16))
    assert made.end.tolist() == [4, 2, 4, 4]
    assert made.steady


def test_persistent_blocks_stay_persistent_and_are_nothing_to_find_out():
    known = Profile.from_columns(size=[64, 32], start=[0, 1], end=[2, NEVER], ticks=2)
    made = profile_iteration(one(64, 16, ("free", 1), 32, ("free", 0)), known, one(64, 32))
    assert made.end.tolist() == [3, 2, NEVER]
    assert made.steady


def test_a_block_that_stays_alive_without_a_counterpart_leaves_something_to_find_out():
    made = profile_iteration(one(64, 1000, 96, 32, 48, ("free", 0), ("free", 2)), KNOWN, REQUESTS)
    assert made.end[1] == NEVER
    assert made.turns.tolist() == [1, 0, 1, 1, 1]
    assert not made.steady


def test_a_block_that_outlives_its_counterpart_leaves_something_to_find_out():
    made = profile_iteration(one(64, 96, ("free", 0), 32, 48), KNOWN, REQUESTS)
    assert made.end.tolist() == [2, NEVER, 5, 6]
    assert not made.steady


def test_what_is_guessed_explains_nothing():
    guessed = profile_iteration(one(1000, ("free", 0), 64), KNOWN, REQUESTS)
    assert not guessed.steady
    again = profile_iteration(one(1000, ("free", 0), 64), guessed, one(1000, 64))
    assert again.end.tolist() == [1, NEVER]
    assert not again.steady


def test_frees_in_later_iterations_do_not_count():
    first, _ = iterations(
        [64, 96, ("free", 0), ("free", 1), 32, 48], [("free", 2), 64, ("free", 3)]
    )
    assert first.gone.tolist() == [2, 2, 4, 5]
    made = profile_iteration(first, KNOWN, REQUESTS)
    # The third: before the next iteration's first request, which is the end of this one.
    assert made.end.tolist() == [2, 2, 4, 6]


def test_blocks_on_several_streams_get_no_slot():
    made = profile_iteration(one(64, 96, ("shared", 1), ("free", 1), 32, 48), KNOWN, REQUESTS)
    assert made.shared.tolist() == [False, True, False, False]
    assert made.turns[1] == 0
    made = profile_iteration(
        one(64, 500, ("shared", 1), ("free", 0), 96, ("free", 2), 32, 48), KNOWN, REQUESTS
    )
    assert made.steady  # when a block without a slot dies does not matter


def test_sizes_that_differ_vary_and_tags_are_carried_over():
    known = Profile.from_columns(
        size=[64, 96, 64, 32], start=[0, 1, 2, 3], end=[4] * 4, tag=[0, 1, -1, 0], ticks=4,
        varying=[False, False, False, True], tags=KNOWN.tags,
    )  # fmt: skip
    recorded = one(64, 80, 64, 32, ("free", 0), ("free", 1), ("free", 2), ("free", 3))
    made = profile_iteration(recorded, known, one(64, 96, 64, 32))
    assert made.size.tolist() == [64, 80, 64, 32]
    assert made.varying[[0, 2, 3]].tolist() == [False, False, True]
    assert made.tags == KNOWN.tags
    assert made.tag[[0, 2, 3]].tolist() == [0, -1, 0]


ACTIONS = st.lists(
    st.one_of(st.sampled_from([8, 16, 64, 100, 256, 1000]), st.tuples(st.just("free"), st.just(0))),
    min_size=1,
    max_size=30,
)


def recorded(actions, picks):
    """Frees hit living blocks, as the given numbers choose them."""
    rows, living, requests = [], [], 0
    for action, pick in zip(actions, picks, strict=True):
        if isinstance(action, int):
            rows.append(("request", action))
            living.append(requests)
            requests += 1
        elif living:
            rows.append(("free", living.pop(pick % len(living))))
    return split(make_events([*rows, ("step",)]))[0]


@given(ACTIONS, ACTIONS, st.lists(st.integers(0, 99), min_size=30, max_size=30), st.data())
def test_whatever_was_recorded_makes_a_plan(before, after, picks, data):
    requests = recorded(before, picks[: len(before)])
    ends = [start + data.draw(st.integers(1, 2 * len(requests))) for start in range(len(requests))]
    known = Profile.from_columns(
        size=requests.size, start=np.arange(len(requests)), end=ends, ticks=len(requests)
    )
    made = profile_iteration(recorded(after, picks[: len(after)]), known, requests)
    validate(plan(made))
    seen = recorded(after, picks[: len(after)])
    inside = seen.gone >= 0
    assert np.array_equal(made.end[inside], seen.gone[inside])
    assert np.all((made.end[~inside] == NEVER) | (made.end[~inside] >= made.ticks))


# --- blocks that are alive at the end, by size --------------------------------------------------

# 64 is asked for three times, as a gradient that is summed up over time steps; the last one wraps.
SUMS = one(64, 64, 64, 32)
SUMMED = Profile.from_columns(
    size=[64, 64, 64, 32], start=[0, 1, 2, 3], end=[2, 3, 6, 5], ticks=4, stream=[0, 0, 0, 0]
)


def test_another_of_many_alike_requests_may_be_the_last_of_its_kind():
    """Of four sums the first three pair with the known three, so the fourth with nothing."""
    recorded = one(64, 64, ("free", 0), 64, ("free", 1), 64, ("free", 2), 32)
    made = profile_iteration(recorded, SUMMED, SUMS)
    assert made.end[:3].tolist() == [2, 3, 4]
    assert made.wrap.tolist() == [False, False, False, True, True]
    assert made.steady


def test_a_pair_that_does_not_wrap_is_given_up_for_one_that_does():
    """Fewer sums: the last one pairs with a request that is freed inside."""
    known = Profile.from_columns(
        size=[64, 16, 64, 32], start=[0, 1, 2, 3], end=[2, 3, 5, 6], ticks=4
    )
    made = profile_iteration(one(64, 16, ("free", 1), 32), known, one(64, 16, 64, 32))
    assert made.end.tolist() == [4, 2, 5]  # 64: before the second known request, 16
    assert made.steady


def test_blocks_of_other_sizes_and_streams_are_no_counterparts():
    recorded = one(64, 64, ("free", 0), 64, ("free", 1), 48, ("free", 2), 32)
    made = profile_iteration(recorded, SUMMED, SUMS)
    assert made.end.tolist() == [2, 3, 4, NEVER, 6]
    assert not made.steady
    elsewhere = SUMMED.stream.copy()
    elsewhere[2] = 1
    known = Profile.from_columns(
        size=SUMMED.size, start=SUMMED.start, end=SUMMED.end, ticks=4, stream=elsewhere
    )
    recorded = one(64, 64, 32, ("free", 0))
    made = profile_iteration(recorded, known, SUMS)
    assert made.end.tolist() == [3, NEVER, 3 + 1]
    assert not made.steady


def test_each_counterpart_is_used_once():
    """Two that pair with nothing stay alive, and only one is known to wrap."""
    recorded = one(64, 64, ("free", 0), 64, ("free", 1), 64, ("free", 2), 64, 32)
    made = profile_iteration(recorded, SUMMED, SUMS)
    assert made.wrap.tolist() == [False, False, False, True, False, True]
    assert made.end[4] == NEVER
    assert not made.steady


def test_of_several_counterparts_the_first_goes_to_the_first():
    known = Profile.from_columns(
        size=[64, 64, 16, 64, 64], start=range(5), end=[2, 2, 3, 5 + 1, 5 + 2], ticks=5
    )
    requests = one(64, 64, 16, 64, 64)
    recorded = one(64, 64, 16, ("free", 2), 8, ("free", 3))
    made = profile_iteration(recorded, known, requests)
    assert made.end.tolist() == [4 + 1, 4 + 2, 3, 4]
    assert made.steady


def test_what_is_known_to_last_takes_no_counterpart_from_others():
    known = Profile.from_columns(size=[64, 64], start=[0, 1], end=[NEVER, 3], ticks=2)
    made = profile_iteration(one(64, 8, ("free", 1), 64), known, one(64, 64))
    assert made.end.tolist() == [NEVER, 2, 3 + 2]
    assert made.steady
    made = profile_iteration(one(64, 8, ("free", 1)), known, one(64, 64))
    assert made.end.tolist() == [NEVER, 2]


def test_a_counterpart_that_was_freed_at_the_end_is_not_free_for_a_copy():
    """`zero_grad` at an iteration's end frees the gradients; a copy of the weights lives on."""
    known = Profile.from_columns(size=[16, 64, 64], start=range(3), end=[1, 3, 3], ticks=3)
    recorded = one(16, ("free", 0), 64, 64, 64, 64, ("free", 1), ("free", 2))
    made = profile_iteration(recorded, known, one(16, 64, 64))
    assert made.end.tolist() == [1, 5, 5, NEVER, NEVER]
    assert not made.steady
