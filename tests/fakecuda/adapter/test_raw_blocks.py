"""Raw blocks of libraries: they have no deleter, and are freed by their addresses."""

import pytest
import torch

import pgmo
from pgmo import _core
from pgmo.allocator.adapters.torch_cuda import adapter_library
from pgmo.errors import AdapterError
from tests.fakecuda.adapter.conftest import BYTES, block, replaying, twice
from tests.fakecuda.control import held

alloc, delete = torch.cuda.caching_allocator_alloc, torch.cuda.caching_allocator_delete


def test_slots_are_for_raw_requests_too(session):
    with session.iteration():
        first = block()
        slot = first.data_ptr()
        del first
    for _ in range(2):
        with session.iteration():
            for _ in range(2):
                raw = alloc(BYTES)
                assert raw == slot
                delete(raw)
        assert session.history[-1].hits == 2


def test_a_raw_request_for_another_stream_than_the_current_one():
    side = torch.cuda.Stream()

    def work():
        with torch.cuda.stream(side):
            twice()

    with replaying(work) as session, session.iteration():
        with torch.cuda.stream(side):
            first = block()
        slot = first.data_ptr()
        del first
        raw = alloc(BYTES, stream=side)
        assert raw == slot
        delete(raw)


def test_raw_blocks_are_freed_while_another_device_is_current(session):
    with session.iteration():
        slot, foreign = alloc(BYTES), alloc(BYTES + 1)
        assert session.statistics["live_fallback_bytes"] == BYTES + 1
        with torch.cuda.device(1):
            delete(slot)
            delete(foreign)
        assert session.statistics["live_fallback_bytes"] == 0
        assert alloc(BYTES) == slot
        delete(slot)


def test_the_adapter_stays_while_raw_slots_live(session):
    """Raw blocks have no deleter, so only the adapter knows which arena they belong to."""
    before = torch.cuda.memory_allocated()
    arena = session.plan.arena
    with session.iteration():
        raw = alloc(BYTES)
    session.close()
    assert torch.cuda.memory_allocated() == before
    delete(raw)
    assert torch.cuda.memory_allocated() == before - arena
    with replaying(twice):
        pass


def test_the_stream_of_a_raw_block_that_was_freed_unseen_is_forgotten():
    """The address is reused by the arena of another stream, and the raw block's stream uses it."""
    stream = torch.cuda.Stream()
    with pgmo.optimize(device="cuda", tags=False, pages=False) as session:
        session.step()
        raw = alloc(BYTES, stream=stream)
    delete(raw)
    torch.cuda.empty_cache()
    with replaying(twice) as session, session.iteration():
        first = block()
        slot = first.data_ptr()
        with held(stream):
            first.record_stream(stream)
            del first
            assert block().data_ptr() != slot


def test_an_engine_of_another_version_or_one_too_many_is_refused():
    import ctypes

    connect, table = adapter_library().call, ctypes.c_void_p(_core.engine_api())
    engine = _core.Engine()
    old = (ctypes.c_uint32 * 2)(1, 8)
    with pytest.raises(AdapterError, match="another version of pgmo's engine"):
        connect("pgmo_connect", 1, ctypes.byref(old), ctypes.c_void_p(engine.handle))
    with pytest.raises(AdapterError, match="devices 0 to 15, not 16"):
        connect("pgmo_connect", 16, table, ctypes.c_void_p(engine.handle))
