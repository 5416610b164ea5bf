"""Allocation pools: what belongs to a graph or a MemPool is delegated, and unseen."""

from tests.adapters.world import Slot, in_thread, serve

TWO = [Slot(1000, 0, end=2), Slot(1000, 1024, end=2)]


def test_what_a_pool_claims_by_thread_is_delegated_unseen(world, adapter):
    engine = adapter.engine
    bases = serve(adapter, TWO)
    engine.start_recording()
    world.log()
    served = []
    with world.pool():
        pooled = world.allocate(1000)
        raw = world.raw_alloc(1000)
        in_thread(lambda: served.append(world.allocate(1000)))
        assert world.log() == [
            *("beneath: beginAllocateToPool(0, (0, 7))", "beneath: allocate(1000)"),
            *("beneath: from pool (0, 7)", "beneath: raw_alloc_with_stream(1000, 0x0)"),
            "beneath: from pool (0, 7)",
        ]
    assert served[0].address == bases[0]  # the other thread's: the first request of the plan
    assert world.allocate(1000).address == bases[0] + 1024
    # Not even their ends are seen, nor their use on other streams.
    pooled.record_stream(3)
    pooled.free()
    world.raw_delete(raw)
    assert len(engine.events()) == 2
    assert world.log()[1:] == [
        f"beneath: recordStream({hex(pooled.address)}, 0x103)",
        *("beneath: free(1024)", "beneath: free(1024)"),
    ]


def test_what_a_pool_claims_by_stream_is_delegated(world, adapter):
    bases = serve(adapter, TWO)
    with world.pool(claims_stream=3):
        with world.on(stream=3):
            pooled = world.allocate(1000)
        assert world.raw_alloc_with_stream(1000, stream=3) not in range(bases[0], bases[0] + 4096)
        assert world.allocate(1000).address == bases[0]
    assert not adapter.engine.owns(pooled.address)
    assert "beneath: from pool (0, 7)" in world.log()
    # A stream that was only ever used for a pool has no number.
    assert not world.adapter.ask("pgmo_knows_stream", 0, 1)


def test_several_pools_at_once_end_by_name(world, adapter):
    bases = serve(adapter, TWO)
    with world.pool(claims_stream=3, number=1), world.pool(claims_stream=4, number=2):
        pass
    with world.pool(claims_stream=3, number=1):
        with world.pool(claims_stream=4, number=2):
            pass
        with world.on(stream=3):
            world.allocate(1000)
        assert adapter.engine.statistics()["requests"] == 0
        with world.on(stream=4):
            world.allocate(1000)
        assert adapter.engine.statistics()["requests"] == 1
    assert world.allocate(1000).address == bases[0]


def test_a_pool_of_one_device_leaves_the_others_alone(world, adapter_of):
    first, second = adapter_of(0), adapter_of(1)
    serve(first, TWO)
    with world.on(device=1):
        serve(second, TWO)
    with world.pool(device=1):
        assert first.engine.owns(world.allocate(1000).address)
        with world.on(device=1):
            assert not second.engine.owns(world.allocate(1000).address)


def test_blocks_that_wait_do_not_disturb_a_capture(world, adapter):
    """CUDA ends a capture when anybody asks whether an event has happened."""
    serve(adapter, [Slot(1000, 0, end=1), Slot(1000, 0, end=2), Slot(1000, 1024, end=3)])
    first = world.allocate(1000)
    with world.held(stream=3):
        first.record_stream(3)
        first.free()
    with world.pool(claims_stream=5), world.capturing(stream=5):
        block = world.allocate(1000)  # of the default stream, which is not captured
        block.free()
        world.adapter.ask("pgmo_poll", 0)
    assert world.complaints() == []


def test_a_capture_on_another_device_is_not_disturbed_either(world, adapter):
    serve(adapter, [Slot(1000, 0, end=1), Slot(1000, 0, end=2)])
    first = world.allocate(1000)
    with world.held(stream=3):
        first.record_stream(3)
        first.free()
    with world.pool(claims_stream=5, device=1), world.capturing(stream=5, device=1):
        world.allocate(1000).free()
    assert world.complaints() == []


def test_what_has_to_wait_for_a_device_waits_beside_a_capture_on_another(world, adapter):
    adapter.engine.start_recording()
    survivor = world.allocate(1000)
    adapter.uninstall()
    adapter.install()
    world.log()
    with world.pool(claims_stream=5, device=1), world.capturing(stream=5, device=1):
        survivor.free()
    assert "cudaDeviceSynchronize(0)" in world.log()
    assert world.complaints() == []


def test_nothing_waits_for_a_device_that_is_being_captured(world, adapter):
    adapter.engine.start_recording()
    survivor = world.allocate(1000)
    adapter.uninstall()
    adapter.install()
    with world.pool(claims_stream=5), world.capturing(stream=5):
        survivor.free()
    assert world.complaints() == []
    assert world.living() == 0
