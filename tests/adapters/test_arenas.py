"""Memory for arenas and regions, and its way back."""

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


def test_a_region_is_in_a_pool_of_its_own(world, adapter):
    """A block that is cut from a cached segment would pin that."""
    first, second = adapter.take_region(1000), adapter.take_region(1000)
    log = world.log()
    assert first.bytes == 1024
    pools = [line.partition("from pool ")[2] for line in log if "from pool" in line]
    assert len(set(pools)) == 2
    for pool in pools:
        assert int(pool.strip("()").split(", ")[1]) >= 1 << 62  # torch counts up from one
        names = [line for line in log if pool in line]
        assert names == [
            f"beneath: beginAllocateToPool(0, {pool})",
            f"beneath: from pool {pool}",
            f"beneath: endAllocateToPool(0, {pool})",
            f"beneath: releasePool(0, {pool})",
        ]
    first.return_now()
    second.return_now()
    # Blocks of any stream were in there.
    assert world.log() == ["cudaDeviceSynchronize(0)", "beneath: free(1024)"] * 2


def test_a_region_goes_back_once_with_its_last_block(world, adapter):
    memory = adapter.take_region(4096)
    region = adapter.engine.add_region(memory.base, memory.bytes, *memory.owner)
    address = adapter.engine.place_in_region(region, 512, 1000)
    adapter.engine.close_region(region)
    assert world.living() == 1
    assert adapter.engine.release(address)
    assert world.living() == 0
