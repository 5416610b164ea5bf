import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgmo import _core
from pgmo.profiler.iterations import request_pairs
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
    # Not all rows: if one of two equal neighbours is missing, either one may be paired.
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
    """The second micro-batch has the sizes that the first one had in the other iteration."""

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


def columns(size):
    size = np.asarray(size, np.int64)
    return size, size.astype(np.float64), np.zeros(len(size), np.uint64)


def test_rows_that_lie_apart_are_refused():
    one = columns([64, 32, 16])
    row = np.full(6, -1, np.int64)
    with pytest.raises(TypeError):
        _core.pair_in_gaps(*one, *one, np.zeros(0), np.array([[0, 3, 0, 3]]), row[::2])
    with pytest.raises(ValueError, match="row must have one entry"):
        _core.pair_in_gaps(*one, *one, np.zeros(0), np.array([[0, 3, 0, 3]]), row[:3, None])
    assert (row == -1).all()


def test_numbers_that_are_logged_are_not_taken_for_a_batch():
    known, other = columns([4000, 4000, 4000]), columns([4, 8, 4, 1300, 1300, 1300])
    row = np.full(6, -1, np.int64)
    _core.pair_in_gaps(*known, *other, np.zeros(0), np.array([[0, 3, 0, 6]]), row)
    assert row.tolist() == [-1, -1, -1, 0, 1, 2]


def test_many_sizes_need_no_table_of_all_pairs():
    many = columns(np.arange(1, 200_001))  # a table with 4 bytes for each pair would have 160 GB
    row = np.full(200_000, -1, np.int64)
    gaps = np.array([[0, 300, 0, 300], [199_000, 200_000, 199_000, 200_000]])
    _core.pair_in_gaps(*many, *many, np.zeros(0), gaps, row)
    assert (row[:300] == np.arange(300)).all()
    assert (row[300:199_000] == -1).all()
    assert (row[199_000:] == np.arange(199_000, 200_000)).all()


def anchored(a, b, off=100):
    row = np.full(len(b), UNPAIRED, np.int64)
    gaps = _core.pair_by_anchors(np.asarray(a, np.int64), np.asarray(b, np.int64), off, row)
    return row.tolist(), gaps.tolist()


def test_sizes_that_occur_equally_often_are_anchors():
    # 7 and 8 are anchors. 1 and 2 are in gaps of equal length, 3 and 4 in gaps of 3 and 2.
    row, gaps = anchored([7, 1, 1, 8, 3, 3, 3, 7], [7, 2, 2, 8, 4, 4, 7])
    assert row == [0, 1, 2, 3, UNPAIRED, UNPAIRED, 7]
    assert gaps == [[4, 7, 4, 6]]


def test_sizes_that_are_balanced_inside_a_gap_only_are_found_there():
    row, gaps = anchored([5, 5, 9, 5, 1], [5, 9, 2, 5, 3, 1])
    assert row[1] == 2  # 9 is an anchor
    assert row[3] == 3  # behind 9, 5 occurs once in both
    assert [3, 3] not in [gap[2:] for gap in gaps]


def test_an_anchor_may_be_off_by_so_much_and_no_more():
    base, other = [1, 2, 2, 2, 2], [3, 3, 3, 3, 1]
    assert anchored(base, other, 4)[0][4] == 0
    assert anchored(base, other, 3) == ([UNPAIRED] * 5, [[0, 5, 0, 5]])


def test_anchors_that_contradict_each_other_are_none():
    row, gaps = anchored([1, 2, 3, 4, 5], [5, 4, 3, 2, 1])
    assert row == [UNPAIRED] * 5
    assert gaps == [[0, 5, 0, 5]]


def test_tokens_out_of_range_and_rows_that_do_not_fit_are_refused():
    for token in ([-1, 0], [0, 4]):
        with pytest.raises(ValueError, match="not below the number of requests"):
            anchored(token, [0, 1])
        with pytest.raises(ValueError, match="not below the number of requests"):
            anchored([0, 1], token)
    ordinals = np.arange(2)
    with pytest.raises(ValueError, match="row must have one entry"):
        _core.pair_by_anchors(ordinals, ordinals, 2, np.full(3, UNPAIRED))


def test_gaps_are_filled_once_where_anchors_stay_the_same(monkeypatch):
    filled = []

    class Counting:
        pair_by_anchors = staticmethod(_core.pair_by_anchors)

        @staticmethod
        def pair_in_gaps(*columns, **rest):
            filled.append(rest["gaps"].tolist())
            _core.pair_in_gaps(*columns, **rest)

    monkeypatch.setattr(request_pairs, "_core", Counting)
    align(_iteration([1, 2, 3, 3, 3, 9]), _iteration([1, 2, 4, 9]))
    assert filled == [[[2, 5, 2, 3]]]
