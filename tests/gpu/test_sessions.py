"""Tests of sessions in a process that uses the device before, between and after them."""

import pytest

torch = pytest.importorskip("torch")

import pgmo  # noqa: E402
from tests.gpu.device import STUB  # noqa: E402
from tests.gpu.processes import result_of, run_module  # noqa: E402
from tests.gpu.programs import Perceptron  # noqa: E402
from tests.gpu.replaying import from_fallback, from_slot, replaying  # noqa: E402
from tests.gpu.running import assert_replayed  # noqa: E402


def test_tensors_live_on_across_both_ends():
    before = torch.full((1000, 1000), 3.0, device="cuda")
    with replaying() as session:
        slot, outside = from_slot(session, 5.0), from_fallback(session, 1000, 7.0)
        total = before + 1
    after = [torch.full((1 << 20,), -1.0, device="cuda") for _ in range(8)]
    if not STUB:
        assert (slot == 10).all()
        assert (outside == 7).all()
        assert (total == 4).all()
        assert (before == 3).all()
        assert all((tensor == -1).all() for tensor in after)


def test_training_goes_on_when_a_session_opens_and_closes_in_the_middle():
    def alone():
        program = Perceptron()
        return program, [program.step(index).item() for index in range(30)]

    def around():
        program, losses = Perceptron(), []
        losses += [program.step(index).item() for index in range(6)]
        with pgmo.optimize(device="cuda") as session:
            for index in range(6, 20):
                with session.iteration():
                    losses.append(program.step(index).item())
        assert_replayed(session)
        losses += [program.step(index).item() for index in range(20, 30)]
        return program, losses

    outcomes = []
    for play in (alone, around):
        torch.manual_seed(0)
        outcomes.append(play())
    (plain, plain_losses), (program, losses) = outcomes
    if not STUB:
        assert plain_losses == losses
        assert all(map(torch.equal, plain.state(), program.state()))


def test_the_official_call_before_cuda_starts():
    plain = result_of(run_module("run_program", "gpt"))
    official = result_of(run_module("run_program", "gpt", "--mode", "official"))
    assert official["phases"][-1] == "replay"
    assert official["hit_bytes_rate"] >= 0.99
    assert official["allocated"] > 0  # PyTorch's statistics continue
    if not STUB:
        assert plain["losses"] == official["losses"]
        assert plain["state"] == official["state"]
