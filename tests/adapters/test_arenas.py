"""Memory for arenas, and its way back."""

from tests.adapters.world import Slot, serve


def test_an_arena_goes_back_once_with_its_last_block(world, adapter):
    serve(adapter, [Slot(1000, 0, end=2), Slot(1000, 1024, end=2)])
    blocks = [world.allocate(1000) for _ in range(2)]
    adapter.engine.remove_plans()
    adapter.engine.detach_arena()
    world.log()
    blocks[0].free()
    assert world.log() == []
    blocks[1].free()
    assert world.log() == ["beneath: free(4096)"]
    adapter.engine.detach_arena()
    assert world.log() == []
    assert world.living() == 0


def test_an_arena_without_blocks_goes_back_at_once(world, adapter):
    serve(adapter, [Slot(1000, 0, end=1)])
    world.allocate(1000).free()
    adapter.engine.remove_plans()
    adapter.engine.detach_arena()
    assert world.living() == 0


def test_an_arena_that_no_engine_was_given(world, adapter):
    adapter.take_arena(4096, 0).return_now()
    assert world.log() == [
        "beneath: raw_alloc_with_stream(4096, 0x0)",
        "beneath: free(4096)",
    ]


def test_an_arena_goes_back_to_where_it_came_from(world, adapter):
    memory = adapter.take_arena(4096, 0)
    adapter.uninstall()
    world.store(world.upstream(1))
    adapter.install()
    memory.return_now()
    # Used on other streams meanwhile, perhaps, and nobody was told.
    assert world.log()[-2:] == ["cudaDeviceSynchronize(0)", "beneath: free(4096)"]
