"""Tests of the period of a sequence with a warm-up, cut ends and loops inside."""

import numpy as np
import pytest

from pgmo.profiler.iterations.traces.period import Period, find_period


def random_sequence(seed, length, names=30):
    return np.random.default_rng(seed).integers(0, names, length)


@pytest.mark.parametrize("length", [1, 2, 3, 10, 97, 1000])
@pytest.mark.parametrize("times", [2, 3, 7])
@pytest.mark.parametrize(("head", "tail"), [(0, 0), (5, 0), (0, 3), (11, 6)])
def test_the_period_is_found_between_other_things(length, times, head, tail):
    unit = 100 + np.arange(length)  # distinct elements have no shorter period
    sequence = np.concatenate([np.arange(head), np.tile(unit, times), 5000 + np.arange(tail)])
    found = find_period(sequence, least_share=0)
    assert found == Period(length, head, head + times * length)
    assert found.times == times


def test_the_iteration_is_preferred_to_a_loop_within_it():
    layer, other = random_sequence(0, 50), random_sequence(1, 400)
    iteration = np.concatenate([np.tile(layer, 24), other, np.tile(layer[::-1], 24)])
    sequence = np.concatenate([random_sequence(2, 3000), np.tile(iteration, 3), iteration[:700]])
    found = find_period(sequence)
    assert found.length == len(iteration)
    # By chance, a few elements before the first iteration may continue the period.
    assert 2990 <= found.start <= 3000
    assert found.stop == len(sequence)


def test_a_loop_within_a_single_iteration_is_no_period():
    iteration = np.concatenate([np.tile(random_sequence(0, 50), 10), random_sequence(1, 2000)])
    assert find_period(iteration) is None
    assert find_period(iteration, least_share=0.1).length == 50


@pytest.mark.parametrize("sequence", [[], [1], [1, 2], [1, 2, 3, 1, 2], np.arange(5000)])
def test_sequences_without_repetition_have_no_period(sequence):
    assert find_period(sequence) is None


def test_the_stretch_really_repeats_and_is_as_long_as_can_be():
    for seed in range(60):
        sequence = random_sequence(seed, 40, names=2)
        found = find_period(sequence, least_share=0)
        stretch = sequence[found.start : found.stop]
        assert len(stretch) >= 2 * found.length
        assert np.array_equal(stretch[found.length :], stretch[: -found.length])
        for outside in (found.start - 1, found.stop):
            if 0 <= outside < len(sequence):
                partner = outside + found.length * (1 if outside < found.start else -1)
                assert sequence[outside] != sequence[partner]
