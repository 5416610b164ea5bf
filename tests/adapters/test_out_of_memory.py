"""When memory runs out."""

import pytest

from tests.adapters.world import OutOfMemoryError, Slot, serve

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


# --- other processes ----------------------------------------------------------------------------
