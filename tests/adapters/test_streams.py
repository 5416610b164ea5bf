"""Blocks that several streams use: a slot is not handed out again before all of them are done."""

import ctypes

import pytest

from pgmo.allocator.adapters import torch_cuda
from pgmo.errors import AdapterError
from tests.adapters.world import Slot, serve

SIZE = 1000
TWICE = [Slot(SIZE, 0, end=1), Slot(SIZE, 0, end=2)]
"""The second block lies where the first one lay."""


def early(world, adapter):
    """Whether memory is handed out again while another stream is still reading it."""
    serve(adapter, TWICE)
    first = world.allocate(SIZE)
    with world.held(stream=3):
        first.record_stream(3)
        first.free()
        second = world.allocate(SIZE)
        return second.address == first.address


def installed(world):
    adapter = torch_cuda.TorchCuda(0)
    adapter.install()
    return adapter


def test_a_slot_waits_for_the_other_stream(new_world):
    sound = new_world("sound")
    assert not early(sound, installed(sound))


def test_the_test_above_would_notice(new_world):
    """The same in a build in which record_stream does nothing."""
    broken = new_world("broken")
    assert early(broken, installed(broken))


@pytest.mark.parametrize("of_any", [False, True])
def test_it_is_handed_out_again_when_the_stream_is_done(world, adapter, of_any):
    bases = serve(adapter, TWICE)
    first = world.allocate(SIZE)
    with world.held(stream=3):
        first.record_stream(3, of_any=of_any)
        first.free()
        second = world.allocate(SIZE)
        assert second.address != bases[0]  # from the allocator beneath
        second.free()
        adapter.engine.end_iteration()
        third = world.allocate(SIZE)
        assert third.address != bases[0]
        third.free()
        assert world.ask("living_events") == 1
        assert world.adapter.ask("pgmo_poll", 0) == 1
    fourth = world.allocate(SIZE)
    assert fourth.address == bases[0]
    fourth.free()
    assert world.ask("living_events") == 0
    assert world.adapter.ask("pgmo_poll", 0) == 0


def test_all_streams_count(world, adapter):
    bases = serve(adapter, TWICE)
    first = world.allocate(SIZE)
    with world.held(stream=4):
        with world.held(stream=3):
            for stream in (3, 4, 3):
                first.record_stream(stream)
            first.free()
            assert world.ask("living_events") == 2
        assert world.adapter.ask("pgmo_poll", 0) == 1
        assert world.allocate(SIZE).address != bases[0]
    assert world.adapter.ask("pgmo_poll", 0) == 0
    adapter.engine.end_iteration()
    assert world.allocate(SIZE).address == bases[0]


def test_its_own_stream_is_none_to_wait_for(world, adapter):
    bases = serve(adapter, TWICE)
    first = world.allocate(SIZE)
    with world.held(stream=0):
        first.record_stream(0)
        first.free()
        assert world.ask("living_events") == 0
        assert world.allocate(SIZE).address == bases[0]


def test_one_use_delays_one_life_only(world, adapter):
    """The next block in that slot has not been used elsewhere."""
    bases = serve(adapter, TWICE)
    first = world.allocate(SIZE)
    first.record_stream(3)
    first.free()
    second = world.allocate(SIZE)
    with world.held(stream=3):
        second.free()
        adapter.engine.end_iteration()
        assert world.allocate(SIZE).address == bases[0]


def test_a_slot_of_another_stream_waits_for_the_default_one(world, adapter):
    with world.on(stream=3):
        world.raw_delete(world.raw_alloc(512))
        adapter.engine.start_recording()
        world.allocate(512).free()  # now the stream has a number
        adapter.engine.stop_recording()
        bases = serve(adapter, [Slot(SIZE, 0, end=1, stream=1), Slot(SIZE, 0, end=2, stream=1)])
        first = world.allocate(SIZE)
        assert first.address == bases[1]
        with world.held(stream=0):
            first.record_stream(0)
            first.free()
            assert world.allocate(SIZE).address != bases[1]


def test_a_slot_that_is_freed_while_another_device_is_current(world, adapter):
    """Events belong to the device of their stream."""
    serve(adapter, TWICE)
    first = world.allocate(SIZE)
    first.record_stream(3)
    with world.on(device=1):
        first.free()
        assert world.ask("device") == 1
        world.adapter.ask("pgmo_poll", 0)
        assert world.ask("device") == 1
    assert world.complaints() == []


@pytest.mark.parametrize("stream", [0, 3])
def test_a_slot_waits_for_a_stream_of_another_device(world, adapter, stream):
    """A copy between devices reads it there. All devices have one handle for the default stream."""
    bases = serve(adapter, TWICE)
    first = world.allocate(SIZE)
    with world.held(stream=stream, device=1):
        first.record_stream(stream, device=1)
        first.free()
        assert world.ask("device") == 0
        assert world.allocate(SIZE).address != bases[0]
    adapter.engine.end_iteration()
    assert world.allocate(SIZE).address == bases[0]
    assert world.ask("living_events") == 0


def test_a_stream_of_another_device_takes_no_number(world, adapter):
    serve(adapter, TWICE)
    world.allocate(SIZE).record_stream(3, device=1)
    assert not world.adapter.ask("pgmo_knows_stream", 0, ctypes.c_uint64(1))


def test_a_stream_on_which_no_event_can_be_recorded_is_waited_for(world, adapter):
    bases = serve(adapter, TWICE)
    first = world.allocate(SIZE)
    with world.held(stream=3, device=1), world.held(stream=4):
        other = world.allocate(512)  # not of the plan: a neighbour whose stream goes on
        first.record_stream(3, device=1)
        with world.failing(2):
            first.free()
        assert world.ask("waited_for", 1, 3)
        assert not world.ask("waited_for", 0, 4)
        assert world.allocate(SIZE).address == bases[0]
        other.free()
    assert world.ask("living_events") == 0


@pytest.mark.parametrize("of_any", [False, True])
def test_a_block_from_beneath_is_recorded_there(world, adapter, of_any):
    """Which ignores, without a word, blocks whose deleter is not its own."""
    adapter.engine.start_recording()
    adopted = world.allocate(SIZE)
    world.log()
    adopted.record_stream(3, of_any=of_any)
    assert world.log() == [f"beneath: recordStream({hex(adopted.address)}, 0x103)"]
    adopted.free()
    assert world.log() == ["beneath: free(1024)"]
    assert world.ask("living_events") == 0


def test_a_stream_that_is_captured_is_asked_later(world, adapter):
    bases = serve(adapter, TWICE)
    first = world.allocate(SIZE)
    with world.held(stream=3):
        with world.capturing(stream=3):
            first.record_stream(3)
            first.free()
            assert world.ask("living_events") == 0
            assert world.allocate(SIZE).address != bases[0]
            assert world.adapter.ask("pgmo_poll", 0) == 1
        assert world.adapter.ask("pgmo_poll", 0) == 1
        assert world.ask("living_events") == 1
        adapter.engine.end_iteration()
        assert world.allocate(SIZE).address != bases[0]
    adapter.engine.end_iteration()
    assert world.allocate(SIZE).address == bases[0]


def test_when_cuda_is_going_down_nothing_is_waited_for(world, adapter):
    bases = serve(adapter, TWICE)
    first = world.allocate(SIZE)
    first.record_stream(3)
    with world.failing(1):
        first.free()
    assert world.allocate(SIZE).address == bases[0]


def close(adapter):
    """As the end of a session does."""
    adapter.engine.remove_plans()
    adapter.engine.detach_arena()
    adapter.uninstall()


@pytest.mark.parametrize("device", [0, 1])
def test_the_arena_goes_back_when_the_session_ends(world, adapter, device):
    """Nobody asks for slots that wait any more, so their streams are waited for."""
    serve(adapter, TWICE)
    first = world.allocate(SIZE)
    with world.held(stream=3, device=device):
        first.record_stream(3, device=device)
        first.free()
        close(adapter)
        assert world.living() == 0
        assert world.ask("waited_for", device, 3)
    assert world.ask("living_events") == 0


def test_the_arena_goes_back_while_another_device_has_a_session(world, adapter_of):
    first, second = adapter_of(0), adapter_of(1)
    serve(first, TWICE)
    serve(second, TWICE)
    block = world.allocate(SIZE)
    with world.held(stream=3):
        block.record_stream(3)
        block.free()
        close(first)
        assert (world.used(0), world.used(1)) == (0, 4096)
        close(second)


def test_a_slot_that_is_freed_after_the_session_waits_at_once(world, adapter):
    serve(adapter, TWICE)
    first = world.allocate(SIZE)
    with world.held(stream=3):
        first.record_stream(3)
        close(adapter)
        assert world.living() == 1  # its arena
        first.free()
        assert world.living() == 0


def test_a_slot_that_waits_outlives_the_session_during_a_capture(world, adapter):
    """Then nothing is waited for: the next one who asks finds it."""
    serve(adapter, TWICE)
    first = world.allocate(SIZE)
    with world.held(stream=3), world.pool(claims_stream=5):
        with world.capturing(stream=5):
            first.record_stream(3)
            first.free()
            close(adapter)
            assert not world.ask("waited_for", 0, 3)
        assert world.living() == 1  # its arena
    adapter.install()
    assert world.adapter.ask("pgmo_poll", 0) == 0
    assert world.living() == 0


def test_many_that_wait_are_all_found_in_the_end(world, adapter):
    count = 20
    bases = serve(
        adapter, [Slot(512, 512 * at, end=count) for at in range(count)], arena=512 * count
    )
    blocks = [world.allocate(512) for _ in range(count)]
    for block in blocks:
        block.record_stream(3)
        block.free()
    assert world.ask("living_events") == count
    adapter.engine.end_iteration()
    served = [world.allocate(512).address for _ in range(count)]
    assert served == [bases[0] + 512 * at for at in range(count)]


def test_a_slow_stream_hides_nobody(world, adapter):
    """More wait for it than are looked at in one request; those behind them are found."""
    count = 8
    bases = serve(
        adapter, [Slot(512, 512 * at, end=count) for at in range(count)], arena=512 * count
    )
    blocks = [world.allocate(512) for _ in range(count)]
    with world.held(stream=3):
        for at, block in enumerate(blocks):
            block.record_stream(3 if at < 5 else 4)
            block.free()
        for _ in range(2):
            adapter.engine.end_iteration()
            served = [world.allocate(512) for _ in range(count)]
            addresses = [block.address for block in served]
            for block in served:
                block.free()
        assert [at for at in range(count) if bases[0] + 512 * at in addresses] == [5, 6, 7]


def test_cuda_is_not_asked_while_nothing_waits(world, adapter):
    """A block that is used elsewhere and lives costs the others nothing."""
    serve(adapter, [Slot(SIZE, 0, end=2), Slot(512, 1024, end=2)])
    lasting = world.allocate(SIZE)
    lasting.record_stream(3)
    before = world.ask("calls_made")
    world.allocate(512).free()
    assert world.ask("calls_made") == before
    lasting.free()
    assert world.ask("calls_made") > before


# --- numbers ------------------------------------------------------------------------------------


def test_no_arena_for_a_stream_that_was_not_used(world, adapter):
    assert adapter.take_arena(4096, 1) is None
    memory = (ctypes.c_uint64 * 4)()
    with pytest.raises(AdapterError, match="stream 1 has not been used yet"):
        world.adapter.call(
            *("pgmo_take_arena", 0, ctypes.c_uint64(1), ctypes.c_size_t(4096)), memory
        )
    assert world.living() == 0
    adapter.engine.start_recording()
    with world.on(stream=9):
        world.allocate(512).free()
    world.log()
    taken = adapter.take_arena(4096, 1)
    assert world.log() == ["beneath: raw_alloc_with_stream(4096, 0x109)"]
    taken.return_now()
    assert world.living() == 0


def test_more_streams_than_there_are_numbers_are_passed_on(world, adapter):
    adapter.engine.start_recording()
    for stream in range(1, 70):
        with world.on(stream=stream):
            world.allocate(512).free()
    requests = adapter.engine.events()
    assert requests["stream"].max() == 63
    assert (requests["kind"] == 0).sum() == 63
    assert world.living() == 0
    # A slot that such a stream uses waits for it all the same.
    bases = serve(adapter, TWICE)
    first = world.allocate(SIZE)
    with world.held(stream=69):
        first.record_stream(69)
        first.free()
        assert world.allocate(SIZE).address != bases[0]
