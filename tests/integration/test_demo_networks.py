"""The four demo networks, whole: the same numbers as without pgmo, out of one small arena."""

from dataclasses import replace

import pytest

from pgmo.demo import worker
from pgmo.demo.job import PlanOutcome, TrainingJob
from pgmo.demo.lengths import LONGEST_AT, varying_lengths
from pgmo.demo.network import NAMES, VARYING_NAMES, create
from tests.same_bits import assert_same_bits

pytest.importorskip("torch")

# Of the LSTM each length has a sequence of requests of its own, and it is the quicker one.
VARYING = [
    pytest.param(name, marks=() if name == "lstm" else pytest.mark.slow) for name in VARYING_NAMES
]


def trained_both_ways(job: TrainingJob) -> PlanOutcome:
    """Train with PyTorch's allocator and with pgmo, and compare the bits of losses and weights."""
    plain, replayed = worker.run(job), worker.run(replace(job, mode="pgmo"))
    assert_same_bits(plain.results, replayed.results, lambda: worker.run(job).results)
    assert replayed.planned is not None
    return replayed.planned


OFTEN = ("lstm", "unet")  # a recurrent and a convolutional one; `make test-all` runs all four
NETWORKS = [pytest.param(name, marks=() if name in OFTEN else pytest.mark.slow) for name in NAMES]


@pytest.mark.parametrize("network", NETWORKS)
def test_a_network_trains_the_same_out_of_an_arena_of_the_least_size(network):
    planned = trained_both_ways(TrainingJob(network, "default", iterations=6))
    assert planned.phases.count("replay") >= 2
    assert planned.hit_rate >= 0.99
    assert planned.hit_bytes_rate >= 0.999
    assert planned.max_load > 2**24
    assert 0 <= planned.gap <= 0.01
    assert planned.replans == 0


@pytest.mark.parametrize("network", VARYING)
def test_changing_lengths_are_planned_again_at_a_new_longest_at_most(network):
    count = LONGEST_AT + 4
    planned = trained_both_ways(TrainingJob(network, "default", count, 0, "varying"))
    lengths = varying_lengths(*create(network, seed=0).lengths, count, seed=0)
    first = planned.phases.index("replay")
    assert first < LONGEST_AT
    assert set(planned.phases[first:]) == {"replay"}
    longer = [i for i in range(first, count) if lengths[i] > max(lengths[:i])]
    assert longer
    assert planned.replans <= len(longer)  # most find room in the arena as it is
    assert planned.hit_bytes_rate >= 0.99  # of the iterations after the longest
    assert 0 <= planned.gap <= 0.01
