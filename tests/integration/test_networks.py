"""Tests of whole networks, with the same bits as without pgmo and one arena."""

from pathlib import Path

import pytest

import pgmo
from bench.cpu_networks import create
from tests.integration import running
from tests.same_bits import assert_same_bits, bits

pytest.importorskip("torch")

# Each length of the LSTM has another number of requests. The LSTM is faster than the GPT.
VARYING = [pytest.param("lstm"), pytest.param("gpt", marks=pytest.mark.slow)]


def trained(name, lengths, session=None):
    """Train once for each length; return a hash of the losses and the final weights."""
    network = create(name, seed=0)
    losses = []
    for index, length in enumerate(lengths):
        losses.append(network.step(network.batch(index, length)))
        if session is not None:
            session.step()
    return bits([*losses, *network.model.state_dict().values()])


@pytest.mark.parametrize("name", VARYING)
def test_changing_lengths_are_planned_again_at_a_new_longest_at_most(name):
    shortest, longest = create(name, seed=0).lengths
    step = (longest - shortest) // 9
    lengths = [shortest + index * 7 % 9 * step for index in range(10)]
    lengths += [longest, *lengths[:3]]
    plain = trained(name, lengths)
    with pgmo.optimize(device="cpu") as session:
        ours = trained(name, lengths, session)
    assert_same_bits(plain, ours, lambda: trained(name, lengths))
    assert 0 <= session.plan.gap <= 0.01
    phases = [one.phase for one in session.history]
    first = phases.index("replay")
    assert first < 10
    assert set(phases[first:]) == {"replay"}
    longer = [at for at in range(first, len(lengths)) if lengths[at] > max(lengths[:at])]
    assert longer
    assert session.summary().replans <= len(longer)  # most lengths fit in the existing arena
    after = session.history[11:]
    hits = sum(one.bytes_hit for one in after)
    assert hits / sum(one.bytes_requested for one in after) >= 0.99


def test_the_example_compares_without_and_with_pgmo(tmp_path):
    example = Path(__file__).parents[2] / "examples" / "resnet.py"
    done = running.run(tmp_path, example, "--iterations", "8", "--save", "plans")
    assert "arena      1" in done.stdout  # 120 MiB
    assert "losses and weights: the same bit for bit" in done.stdout
    assert (tmp_path / "plans" / "resnet.pgmoprof").exists()
    assert (tmp_path / "plans" / "resnet.pgmoplan").exists()
