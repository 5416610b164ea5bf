"""Requests of captures and of pools go to PyTorch, and pgmo does not disturb captures."""

import pytest
import torch

from tests.fakecuda.adapter.conftest import block, replaying, twice
from tests.fakecuda.control import held


@pytest.mark.parametrize("device", [0, 1])
def test_slots_that_wait_do_not_end_a_capture(session, device):
    """CUDA ends a capture if any code queries an event."""
    stream = torch.cuda.Stream()
    source, target = (torch.zeros(8, device=f"cuda:{device}") for _ in range(2))
    with session.iteration():
        first = block()
        with held(stream):
            first.record_stream(stream)
            del first
        with torch.cuda.device(device):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
                target.copy_(source)
                with torch.cuda.device(0), torch.cuda.stream(torch.cuda.default_stream()):
                    block()
    source.copy_(torch.full((8,), 3.0))
    graph.replay()
    assert target.tolist() == [3.0] * 8


def test_a_stream_that_is_captured_is_asked_later(session):
    source, target = torch.zeros(8, device="cuda"), torch.zeros(8, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with session.iteration():
        first = block()
        slot = first.data_ptr()
        with torch.cuda.graph(graph):
            target.copy_(source)
            first.record_stream(torch.cuda.current_stream())
            del first
            with torch.cuda.stream(torch.cuda.default_stream()):
                assert block().data_ptr() != slot
    graph.replay()
    with session.iteration():
        assert block().data_ptr() == slot


def test_a_session_ignores_requests_of_a_pool_and_serves_other_threads(session, in_thread):
    served = []
    pool = torch.cuda.MemPool()
    with session.iteration():
        seen = session.statistics["requests"]
        with torch.cuda.use_mem_pool(pool):
            pooled = block()
            raw = torch.cuda.caching_allocator_alloc(1 << 20)
            assert session.statistics["requests"] == seen
            in_thread(lambda: served.append(block().data_ptr()))
        assert session.statistics["requests"] == seen + 1
        assert block().data_ptr() == served[0] != pooled.data_ptr()
        torch.cuda.caching_allocator_delete(raw)
        del pooled
        assert session.statistics["live_fallback_bytes"] == 0
    del pool


def test_a_pool_of_one_device_leaves_the_others_alone(session):
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool, device=1), session.iteration():
        twice()
    assert session.history[-1].hits == 2
    del pool


def test_an_arena_is_not_given_back_for_a_request_in_a_pool():
    total = torch.cuda.get_device_properties(0).total_memory
    with replaying(twice) as session:
        free = total - torch.cuda.memory_reserved()
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool), pytest.raises(torch.OutOfMemoryError):
            torch.empty(free + 1, dtype=torch.uint8, device="cuda")
        with session.iteration():
            twice()
        assert session.history[-1].hits == 2
        del pool
