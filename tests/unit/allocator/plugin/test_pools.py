"""The memory of captured graphs."""

from tests.unit.allocator.plugin.machine import (
    OTHER,
    SIDE,
    Machine,
    PluginFramework,
    serve_one_slot,
)


def test_pool_keeps_its_memory_until_it_is_released(framework: PluginFramework):
    machine = framework.machine
    serve_one_slot(framework)
    requests = framework.engine.statistics()["requests"]
    machine.begin_pool(1, SIDE)
    machine.capture(SIDE, True)
    first = machine.alloc(4096, SIDE)
    machine.free(first)
    again = machine.alloc(4000, SIDE)
    assert again == first
    other = machine.alloc(4096, SIDE)
    outside = machine.alloc(4096, OTHER)  # the filter does not take it
    assert (machine.plain(), machine.is_allocated(outside)) == (8192, True)
    machine.capture(SIDE, False)
    machine.end_pool(1)
    after = machine.alloc(4096, SIDE)
    assert machine.plain() == 8192
    machine.free(again)
    assert machine.plain() == 8192  # a replayed graph writes there
    machine.release_pool(1)
    assert machine.plain() == 4096
    machine.free(other)
    assert machine.plain() == 0
    machine.free(outside)
    machine.free(after)
    # Only the two requests that no pool took.
    assert framework.engine.statistics()["requests"] == requests + 2
    assert machine.plugin.pgmo_plugin_captured(machine.ordinal) == 1


def test_request_in_a_pool_is_not_served_from_a_slot(framework: PluginFramework):
    machine = framework.machine
    base = serve_one_slot(framework)
    machine.begin_pool(1, 0)
    block = machine.alloc(1024)
    assert block != base
    machine.end_pool(1)
    slot = machine.alloc(1024)
    assert slot == base
    for one in (slot, block):
        machine.free(one)
    machine.release_pool(1)
    assert machine.plain() == 0


def test_free_block_of_a_pool_serves_neither_other_streams_nor_much_smaller_requests(machine):
    machine.begin_pool(1, SIDE)
    machine.begin_pool(1, OTHER)
    block = machine.alloc(1 << 20, SIDE)
    machine.free(block)
    others = [machine.alloc(1 << 20, OTHER), machine.alloc(1 << 10, SIDE)]
    assert block not in others
    for one in others:
        machine.free(one)
    for _ in range(2):
        machine.end_pool(1)
        machine.release_pool(1)
    assert machine.plain() == 0


def test_block_of_a_pool_that_another_stream_uses_is_not_reused(machine: Machine):
    machine.begin_pool(1, SIDE)
    block = machine.alloc(4096, SIDE)
    machine.record_stream(block, OTHER)
    machine.free(block)
    second = machine.alloc(4096, SIDE)
    assert second != block
    machine.free(second)
    machine.end_pool(1)
    machine.release_pool(1)
    assert machine.plain() == 0


def test_pool_of_two_graphs_lives_until_both_are_gone(machine: Machine):
    for _ in range(2):
        machine.begin_pool(7, SIDE)
        machine.free(machine.alloc(4096, SIDE))
        machine.end_pool(7)
    machine.release_pool(7)
    assert machine.plain() == 4096
    machine.release_pool(7)
    assert machine.plain() == 0


def test_free_on_a_stream_in_capture_waits_for_its_end(machine: Machine):
    block = machine.alloc(4096, SIDE)
    machine.begin_pool(1, SIDE)
    machine.capture(SIDE, True)
    machine.free(block)
    machine.free(machine.alloc(512, OTHER))
    assert machine.is_allocated(block)
    machine.capture(SIDE, False)
    machine.end_pool(1)
    machine.poll()
    assert not machine.is_allocated(block)


def test_event_on_a_stream_in_capture_waits_for_its_end(machine: Machine):
    block = machine.alloc(4096)
    machine.record_stream(block, SIDE)
    machine.begin_pool(1, SIDE)
    machine.capture(SIDE, True)
    machine.free(block)
    assert machine.poll() == 1
    machine.hold(SIDE)
    machine.capture(SIDE, False)
    machine.end_pool(1)
    assert machine.poll() == 1
    assert machine.is_allocated(block)
    machine.let_go(SIDE)
    assert machine.poll() == 0
    assert not machine.is_allocated(block)


def test_pool_released_during_another_capture_goes_back_after_it(machine: Machine):
    machine.begin_pool(1, SIDE)
    machine.free(machine.alloc(4096, SIDE))
    machine.end_pool(1)
    machine.begin_pool(2, OTHER)
    machine.capture(OTHER, True)
    machine.release_pool(1)
    assert machine.plain() == 4096
    machine.capture(OTHER, False)
    machine.end_pool(2)
    machine.poll()
    assert machine.plain() == 0
    machine.release_pool(2)
