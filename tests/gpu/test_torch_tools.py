"""Tests that PyTorch's own tools work while a session replays."""

import gc

import pytest

torch = pytest.importorskip("torch")

import pgmo  # noqa: E402
from tests.gpu.device import PAGES, STUB  # noqa: E402
from tests.gpu.replaying import ELEMENTS, from_fallback, from_slot, replaying, turn  # noqa: E402

BLOCK = 4 * ELEMENTS
LARGE = 64 << 20


def filled(tensor, value):
    """Return a tensor after a copy of values into it, as the stub computes none."""
    return tensor.copy_(torch.full(tensor.shape, value))


@pytest.fixture
def session():
    gc.collect()
    with replaying() as session:
        yield session


PAGE = 2 << 20
"""Bytes of a page."""


def test_empty_cache_returns_what_is_free_and_keeps_what_lives(session):
    del (block := [from_fallback(session, LARGE // 4)])[:]
    held = filled(from_slot(session), 6.0)
    before = torch.cuda.memory_reserved()
    torch.cuda.empty_cache()
    # Slots and one small block may take pages of the freed block.
    assert torch.cuda.memory_reserved() <= before - LARGE + session.plan.arena + PAGE
    assert torch.cuda.memory_reserved() >= held.nbytes  # idle pages of the arena are released, too
    assert (held.cpu() == 6).all()
    assert not block


def test_memory_fraction_and_the_typed_error(session):
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.empty_cache()
    fraction = (torch.cuda.memory_reserved() + 2 * LARGE) / total
    torch.cuda.set_per_process_memory_fraction(fraction)
    try:
        with pytest.raises(torch.OutOfMemoryError) as caught:
            torch.empty(4 * LARGE, dtype=torch.uint8, device="cuda")
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    text = str(caught.value)
    assert text.startswith("CUDA out of memory. Tried to allocate 256.00 MiB.")
    assert "pgmo" in text.removeprefix("CUDA out of memory.")
    for _ in range(4):
        with session.iteration():
            turn()
    # The idle arena was released for the failed request, and is made again.
    assert session.history[-1].hits == 2


def test_memory_pools_are_not_planned(session):
    hits = session.statistics["hits"]
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        inside = filled(turn(), 6.0)
    assert session.statistics["hits"] == hits
    outside = filled(turn(), 10.0)
    assert session.statistics["hits"] == hits + 2
    assert (inside.cpu() == 6).all()
    assert (outside.cpu() == 10).all()
    segments = torch.cuda.memory_snapshot()
    if hasattr(pool, "snapshot"):
        segments = pool.snapshot()
    sizes = [one["total_size"] for one in segments]
    assert sum(sizes) >= 2 * BLOCK
    del inside, outside, pool


def send_sum(queue, tensor):
    queue.put(tensor.sum().item())


def sum_in_another_process(tensor):
    """Return the sum of a tensor, computed by a process that shares its memory."""
    import torch.multiprocessing as multiprocessing

    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=send_sum, args=(queue, tensor))
    process.start()
    try:
        return queue.get(timeout=60)
    finally:
        process.join(timeout=30)


@pytest.mark.skipif(STUB, reason="nothing to share memory with")
def test_a_tensor_of_the_fallback_is_shared_with_another_process(session):
    assert sum_in_another_process(from_fallback(session, 1000, 2.0)) == 2000


@pytest.mark.skipif(not PAGES, reason="without pages nothing of the sort can be shared")
@pytest.mark.skipif(STUB, reason="a test of its own: tests/fakecuda/pages/test_sharing.py")
def test_a_tensor_in_pages_is_shared_with_another_process():
    with pgmo.optimize(device="cuda") as session:
        for _ in range(8):
            torch.ones(ELEMENTS, device="cuda")
            session.step()
        tensor = torch.ones(ELEMENTS, device="cuda")
        assert session.statistics["live_slot_bytes"] > 0
        assert sum_in_another_process(tensor) == ELEMENTS
        del tensor
