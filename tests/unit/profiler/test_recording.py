import numpy as np
import pytest

from pgmo.errors import ProfileError
from pgmo.profiler.recording import ALIVE, make_events, split


def test_split_by_steps():
    rows = [("request", 10), ("request", 20), ("free", 0), ("step",)]
    rows += [("request", 30), ("free", 1), ("request", 40), ("step",)]
    one, two = split(make_events(rows))
    assert (one.index, one.first, one.size.tolist()) == (0, 0, [10, 20])
    assert (two.index, two.first, two.size.tolist()) == (1, 2, [30, 40])
    assert one.gone.tolist() == [2, 3]
    assert two.gone.tolist() == [ALIVE, ALIVE]


def test_events_after_the_last_step_are_left_out():
    rows = [("request", 10), ("step",), ("free", 0), ("request", 20)]
    (only,) = split(make_events(rows))
    assert only.size.tolist() == [10]
    assert only.gone.tolist() == [ALIVE]
    assert split(make_events(rows[2:3] * 0)) == []
    assert split(make_events([("request", 1)])) == []


def test_an_iteration_without_requests_is_kept():
    rows = [("request", 10), ("step",), ("step",), ("request", 10), ("step",)]
    assert [len(iteration) for iteration in split(make_events(rows))] == [1, 0, 1]


def test_shared_blocks():
    rows = [("request", 10), ("request", 20), ("shared", 1), ("free", 0), ("step",)]
    rows += [("request", 30), ("shared", 0), ("shared", 0), ("request", 40), ("step",)]
    one, two = split(make_events([*rows, ("shared", 2)]))  # the last iteration is incomplete
    assert one.shared.tolist() == [True, True]
    assert two.shared.tolist() == [False, False]
    assert one.gone.tolist() == [2, ALIVE]
    assert two.size.tolist() == [30, 40]


def test_threads_are_numbered_in_order_of_appearance():
    events = make_events([("request", 1)] * 4 + [("step",)])
    events["thread"][:4] = [9, 3, 9, 65535]
    assert split(events)[0].thread.tolist() == [0, 1, 0, 2]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("free", 0), ("request", 1), ("step",)], "block 0 is freed before it is requested"),
        ([("request", 1), ("free", 0), ("free", 0), ("step",)], "block 0 is freed twice"),
        ([("request", 1), ("free", 7), ("step",)], "block 7 is freed before"),
        (
            [("request", 1), ("shared", 1), ("step",)],
            "block 1 is used on a stream before it is req",
        ),
        (
            [("request", 1), ("shared", 7), ("step",)],
            "block 7 is used on a stream before it is req",
        ),
        ([("request", 0), ("step",)], "request 0 is of 0 bytes"),
    ],
)
def test_events_that_contradict_each_other(rows, message):
    with pytest.raises(ProfileError, match=message):
        split(make_events(rows))


def test_missing_events_and_wrong_types():
    events = make_events([("request", 1), ("request", 1), ("step",)])
    with pytest.raises(ProfileError, match="request 0 is recorded as block 1"):
        split(events[1:])
    events["kind"][0] = 10
    with pytest.raises(ProfileError, match="event 0 has kind 10"):
        split(events)
    with pytest.raises(ProfileError, match="dtype"):
        split(np.zeros(3))
