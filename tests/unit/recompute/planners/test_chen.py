"""Tests of segments of about the square root of the length, cut at single connections."""

import numpy as np
import pytest
from hypothesis import given, settings

from pgmo.recompute.planners.chen import articulation_points, cut, sweep
from pgmo.recompute.planners.lower_sets import Dag
from pgmo.recompute.planners.schedule import simulate
from tests.unit.recompute.graphs import chain
from tests.unit.recompute.planners.test_lower_sets import dags


@pytest.mark.parametrize("length", [16, 64, 256, 1024])
def test_peak_of_a_chain_grows_with_the_square_root(length: int) -> None:
    graph = chain(length, size=1)
    segments = next(sweep(Dag.of(graph)))
    schedule = simulate(graph, segments.dropped(last=False))
    root = length**0.5
    assert root - 3 <= len(segments.cuts) <= root + 1
    assert 2 * root - 4 <= schedule.peak <= 2 * root + 6
    assert schedule.overhead == pytest.approx(1 - 2 / root, abs=3 / root)


@settings(max_examples=100)
@given(dags())
def test_cuts_separate_what_is_before_from_what_is_after(dag: Dag) -> None:
    for point in articulation_points(dag):
        before = set(np.flatnonzero(dag.ancestors[point]).tolist())
        crossing = {
            read
            for node in set(range(len(dag))) - before
            for read in dag.reads[node]
            if read in before
        }
        assert crossing == {point}


@settings(max_examples=100)
@given(dags())
def test_segments_add_up_to_the_whole(dag: Dag) -> None:
    for segments in sweep(dag):
        assert set(segments.cuts) <= set(articulation_points(dag))
        assert segments.dropped() == set(range(len(dag))) - set(segments.cuts)
        assert segments.dropped(last=False) <= segments.dropped()
        assert segments.kept == sum(int(dag.size[one]) for one in segments.cuts)
        assert segments.largest <= int(dag.size.sum())


def test_a_segment_exceeds_the_limit_by_its_last_operation_only() -> None:
    dag = Dag.of(chain(20, size=10))
    segments = cut(dag, 50, articulation_points(dag))
    assert segments.cuts == (5, 11, 17)
    assert segments.largest == 60
    assert segments.last == 18


def test_skip_connection_is_not_cut() -> None:
    skip = Dag(((), (0,), (1,), (0, 2), (3,)), np.full(5, 10), np.ones(5))
    assert articulation_points(skip) == (0, 3)
    assert cut(skip, 0, (0, 3)).cuts == (0, 3)
