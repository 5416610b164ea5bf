import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgmo import _core
from pgmo.profiler.iterations.request_pairs import UNPAIRED, align
from pgmo.profiler.recording import Iteration


def _iteration(size, stream=None):
    n = len(size)
    return Iteration(
        index=0,
        first=0,
        size=np.asarray(size, np.int64),
        stream=np.zeros(n, np.uint64) if stream is None else np.asarray(stream, np.uint64),
        thread=np.zeros(n, np.uint32),
        tag=np.full(n, -1, np.int32),
        gone=np.full(n, -1, np.int64),
        shared=np.zeros(n, np.bool_),
        in_gap=np.zeros(n, np.bool_),
    )


def _layers(count, shape, period=90):
    random = np.random.default_rng(5)
    fixed, base = random.random(period) < 0.35, random.integers(1, 40, period) * 256
    return np.tile(np.where(fixed, base, base * shape), count)


@pytest.mark.parametrize(("layers", "drops"), [(24, 14), (24, 200), (400, 250)])
def test_layers_at_another_shape_with_requests_missing(layers, drops):
    random = np.random.default_rng(drops)
    base, other = _layers(layers, 1024), _layers(layers, 512)
    kept = np.sort(random.choice(len(other), len(other) - drops, replace=False))
    rows = align(_iteration(base), _iteration(other[kept]))
    # Not all: where one of two equal neighbours is missing, nobody knows which.
    assert (rows == kept).mean() > 0.9


def test_a_loop_of_fewer_turns_is_a_part_of_a_longer_one():
    def loop(turns):
        forward, backward = [3, 100 * turns, 7, 7, 3], [100 * turns, 9, 7, 3]
        return forward * turns + [11, 13] + backward * turns

    longer, shorter = loop(20), loop(18)
    rows = align(_iteration(longer), _iteration(shorter))
    assert (rows != UNPAIRED).all()
    equal = np.array(longer)[rows] == np.array(shorter)
    assert equal.sum() == sum(size < 100 for size in shorter)


def test_micro_batches_that_change_places_are_not_taken_for_each_other():
    """The second one has the sizes today that the first one had before."""

    def iteration(lengths, begin):
        batches = [
            [8, *(64 * length, 32 * length, 8 * length * length, 8) * 6] for length in lengths
        ]
        return [*begin, *batches[0], *batches[1], *(1000 + at for at in range(20))]

    known, other = iteration((90, 40), (5, 5, 6)), iteration((65, 90), ())
    rows = align(_iteration(known), _iteration(other))
    assert rows.tolist() == list(range(3, len(known)))


def test_requests_of_different_streams_are_never_paired():
    rows = align(_iteration([1, 2, 3], [0, 0, 0]), _iteration([1, 2, 3], [0, 1, 0]))
    assert rows.tolist() == [0, UNPAIRED, 2]


sequences = st.lists(st.integers(1, 6), max_size=40)


@given(sequences, sequences)
def test_pairs_increase_and_stay_in_range(a, b):
    rows = align(_iteration(a), _iteration(b))
    assert len(rows) == len(b)
    paired = rows[rows != UNPAIRED]
    assert np.all(np.diff(paired) > 0)
    assert np.all((paired >= 0) & (paired < len(a)))


@given(sequences)
def test_a_sequence_is_aligned_with_itself(a):
    assert align(_iteration(a), _iteration(a)).tolist() == list(range(len(a)))


def test_requests_that_the_first_iteration_alone_makes_are_left_out():
    """The optimizer's state is born there: more requests than the look-ahead has."""
    forward, backward = [7, 64, 7, 32, 9, 16], [9, 11, 64, 11, 7, 13]
    births = [1000 + at for at in range(40)]
    first, later = forward + backward + births + [5, 3, 8, 5], forward + backward + [5, 3, 8, 5]
    rows = align(_iteration(first), _iteration(later))
    assert rows.tolist() == [*range(12), *range(52, 56)]


def test_numbers_that_are_logged_are_not_taken_for_a_batch():
    known, other = [4000, 4000, 4000, 5], [4, 8, 4, 1300, 1300, 1300, 5]
    rows = align(_iteration(known), _iteration(other))
    assert not {0, 1, 2} & set(rows[:3].tolist())


def columns(size):
    size = np.asarray(size, np.int64)
    return np.arange(len(size)), size, np.zeros(len(size), np.uint64)


def test_columns_that_do_not_fit_are_refused():
    token, size, stream = columns([64, 32])
    with pytest.raises(ValueError, match="differ in length"):
        _core.pair_requests(token, size[:1], stream, token, size, stream)
    for wrong in ([-1, 0], [0, 4]):
        with pytest.raises(ValueError, match="numbered from 0"):
            _core.pair_requests(np.array(wrong), size, stream, token, size, stream)
        with pytest.raises(ValueError, match="numbered from 0"):
            _core.pair_requests(token, size, stream, np.array(wrong), size, stream)
