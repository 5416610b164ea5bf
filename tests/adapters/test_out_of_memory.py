"""When memory runs out."""

import pytest

from pgmo.errors import AdapterError
from tests.adapters.world import OutOfMemoryError, Slot, TorchError, serve

TEXT = "CUDA out of memory. Tried to allocate 9000 bytes. GPU 0 has a total capacity of 8192 bytes"


@pytest.fixture
def small(world, adapter):
    world.limit(8192)
    return world


@pytest.mark.parametrize("method", ["allocate", "raw_alloc"])
def test_torchs_type_and_text_come_first_and_advice_last(small, adapter, method):
    serve(adapter, [Slot(1000, 0, end=1)])
    slot, foreign = small.allocate(1000), small.allocate(3500)
    adapter.advise("Make the batch smaller.")
    with pytest.raises(OutOfMemoryError) as caught:
        getattr(small, method)(9000)
    lines = str(caught.value).splitlines()
    assert lines[0] == f"{TEXT} of which 512 bytes is free."
    assert lines[1] == (
        "pgmo: arenas hold 4.00 KiB, of which 1000 B are in use; blocks of this session outside "
        "the plan 3.42 KiB."
    )
    assert lines[2:] == ["Make the batch smaller."]
    slot.free()
    foreign.free()


def test_outside_of_a_session_the_text_is_torchs_alone(small, adapter):
    adapter.advise("Make the batch smaller.")
    with pytest.raises(OutOfMemoryError) as caught:
        small.allocate(9000)
    assert str(caught.value) == f"{TEXT} of which 8192 bytes is free."


def test_in_a_pool_torchs_text_comes_first_too(small, adapter):
    serve(adapter, [Slot(1000, 0, end=1)])
    with small.pool():
        with pytest.raises(OutOfMemoryError) as caught:
            small.allocate(9000)
    lines = str(caught.value).splitlines()
    assert lines[0] == f"{TEXT} of which 4096 bytes is free."
    assert lines[1].startswith("pgmo: arenas hold 4.00 KiB, of which 0 B are in use;")


def test_the_request_that_failed_is_no_living_block(small, adapter):
    adapter.engine.start_recording()
    with pytest.raises(OutOfMemoryError):
        small.allocate(9000)
    small.allocate(1000).free()
    assert adapter.engine.statistics()["live_fallback_bytes"] == 0
    assert len(adapter.engine.living()) == 0


def test_no_memory_for_an_arena(small, adapter):
    with pytest.raises(AdapterError, match=r"CUDA out of memory\. Tried to allocate 9216 bytes"):
        adapter.take_arena(9216, 0)
    assert small.living() == 0


# --- other processes ----------------------------------------------------------------------------


def test_a_slot_cannot_be_shared_and_says_what_to_do(world, adapter):
    serve(adapter, [Slot(1000, 0, end=1)])
    slot, other = world.allocate(1000), world.allocate(5000)
    for ask in (slot.share, slot.base):
        with pytest.raises(TorchError) as caught:
            ask()
        assert "lies in pgmo's arena, which other processes cannot share" in str(caught.value)
        assert "session.pause()" in str(caught.value)
    world.log()
    other.share()
    assert other.base() == 5120
    assert world.log() == [
        f"beneath: shareIpcHandle({hex(other.address)})",
        f"beneath: getBaseAllocation({hex(other.address)})",
    ]
