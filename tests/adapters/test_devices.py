"""Several devices in one process."""

from tests.adapters.world import Slot, serve

ONE = [Slot(1000, 0, end=1)]


def test_each_device_has_its_engine_and_its_arena(world, adapter_of):
    first, second = adapter_of(0), adapter_of(1)
    bases = serve(first, ONE), serve(second, ONE)  # whichever device is current
    assert (world.used(0), world.used(1)) == (4096, 4096)
    block = world.allocate(1000)
    with world.on(device=1):
        other = world.allocate(1000)
    assert (block.address, other.address) == (bases[0][0], bases[1][0])
    assert (block.device, other.device) == (0, 1)
    assert first.engine.statistics()["hits"] == second.engine.statistics()["hits"] == 1
    other.free()  # while device 0 is current
    block.free()
    assert first.engine.statistics()["live_slot_bytes"] == 0
    assert second.engine.statistics()["live_slot_bytes"] == 0
    for adapter in (first, second):
        adapter.engine.detach_arena()
    assert (world.used(0), world.used(1)) == (0, 0)


def test_a_device_that_no_session_asked_for_is_untouched(world, adapter):
    serve(adapter, ONE)
    world.log()
    with world.on(device=2):
        block = world.allocate(1000)
        block.record_stream(3, device=2)
        raw = world.raw_alloc(1000)
    assert world.log() == [
        "beneath: allocate(1000)",
        f"beneath: recordStream({hex(block.address)}, 0x303)",
        "beneath: raw_alloc_with_stream(1000, 0x0)",
    ]
    assert adapter.engine.statistics()["requests"] == 0
    assert [world.used(device) for device in range(4)] == [4096, 0, 2048, 0]
    block.free()
    world.raw_delete(raw)
    assert world.used(2) == 0


def test_arenas_are_taken_on_their_device(world, adapter_of):
    adapter = adapter_of(1)
    with world.on(device=3):
        arena = adapter.take_arena(4096, 0)
        assert world.ask("device") == 3
        assert [world.used(device) for device in range(4)] == [0, 4096, 0, 0]
        arena.return_now()
        assert world.ask("device") == 3
    assert world.used(1) == 0


def test_a_device_that_nothing_runs_on_gets_no_context(world, adapter_of):
    """It is the current one by name only: PyTorch makes devices current when it has work."""
    adapter = adapter_of(1)
    assert world.ask("device") == 0
    bases = serve(adapter, ONE)
    assert [world.used(device) for device in range(4)] == [0, 4096, 0, 0]
    world.ask("set_device", 1)
    block = world.allocate(1000)
    world.ask("let_device_be", 0)
    assert block.address == bases[0]
    with world.held(stream=3, device=1):
        block.record_stream(3, device=1)
        block.free()
        adapter.engine.detach_arena()
        adapter.uninstall()
    assert [world.used(device) for device in range(4)] == [0, 0, 0, 0]
    assert world.ask("device") == 0
    assert [world.ask("has_context", device) for device in range(4)] == [0, 1, 0, 0]


def test_the_adapter_stays_until_the_last_device_is_done(world, adapter_of):
    first, second = adapter_of(0), adapter_of(1)
    first.uninstall()
    assert world.current != world.upstream()
    second.uninstall()
    assert world.current == world.upstream()


def test_streams_are_numbered_on_each_device(world, adapter_of):
    first, second = adapter_of(0), adapter_of(1)
    for adapter in (first, second):
        adapter.engine.start_recording()
    for device, stream in ((0, 5), (1, 6), (1, 5)):
        with world.on(device=device, stream=stream):
            world.allocate(512).free()
    assert first.engine.events()["stream"][::2].tolist() == [1]
    assert second.engine.events()["stream"][::2].tolist() == [1, 2]
