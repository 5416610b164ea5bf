"""Tests of unified memory on a device, with the same results.

All tests fit into the free memory of the card.
"""

import gc

import pytest

torch = pytest.importorskip("torch")

import pgmo  # noqa: E402
from pgmo.allocator.adapters.torch_cuda import torch_cuda  # noqa: E402
from tests.gpu.device import STUB  # noqa: E402
from tests.gpu.programs import GPT  # noqa: E402
from tests.gpu.running import assert_replayed, assert_same, run  # noqa: E402


@pytest.fixture(autouse=True)
def supported():
    if not torch_cuda().card().concurrent:  # any other problem is a failure
        pytest.skip("this device has no concurrent access to unified memory")


def test_tensors_made_inside_are_unified_and_stay_valid():
    allocated = torch.cuda.memory_allocated()
    before = torch.full((1 << 20,), 2.0, device="cuda")
    with pgmo.managed() as memory:
        inside = torch.full((1 << 20,), 3.0, device="cuda")
        assert memory.bytes >= 4 << 20
        assert memory.oversubscription < 1
    after = before * inside
    if not STUB:
        assert (after == 6).all()
        assert (inside == 3).all()
    del before, inside, after
    gc.collect()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_allocated() == allocated
    assert memory.bytes == 0


def test_a_session_in_unified_memory_computes_the_same():
    plain = run(GPT)
    with pgmo.managed(), pgmo.optimize(device="cuda") as session:
        under_pgmo = run(GPT, session)
    assert_same(plain, under_pgmo)
    assert_replayed(session)
    summary = session.summary()
    assert session.plan is not None
    assert summary.managed >= session.plan.arena
    assert summary.oversubscription < 1


def test_a_plan_that_spills_computes_the_same():
    plain = run(GPT)
    with pgmo.optimize(device="cuda") as session:
        run(GPT, session)
    assert session.plan is not None
    half = session.plan.arena // 2
    with pgmo.optimize(device="cuda", budget=half) as session:
        under_pgmo = run(GPT, session)
    assert_same(plain, under_pgmo)
    assert_replayed(session)
    assert session.plan is not None
    assert session.plan.resident <= half
    assert session.plan.spilled > 0
