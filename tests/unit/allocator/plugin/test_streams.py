"""Blocks that several streams use."""

from tests.unit.allocator.plugin.machine import (
    OTHER,
    SIDE,
    Machine,
    serve_one_slot,
)


def test_free_waits_for_the_other_streams(machine: Machine):
    block = machine.alloc(4096)
    for stream in (SIDE, OTHER):
        machine.record_stream(block, stream)
        machine.hold(stream)
    machine.free(block)
    assert machine.poll() == 1
    machine.let_go(SIDE)
    assert machine.poll() == 1
    assert machine.is_allocated(block)
    machine.let_go(OTHER)
    assert machine.poll() == 0
    assert not machine.is_allocated(block)


def test_free_that_waits_is_done_by_a_later_request(machine: Machine):
    block = machine.alloc(4096)
    machine.record_stream(block, SIDE)
    machine.hold(SIDE)
    machine.free(block)
    machine.let_go(SIDE)
    assert machine.is_allocated(block)
    machine.free(machine.alloc(512))
    assert not machine.is_allocated(block)


def test_block_used_on_its_own_stream_is_freed_at_once(machine: Machine):
    block = machine.alloc(4096, SIDE)
    machine.record_stream(block, SIDE)
    machine.hold(SIDE)
    machine.free(block)
    assert not machine.is_allocated(block)
    machine.let_go(SIDE)


def test_use_ends_with_the_block(machine: Machine):
    """The next block at an address inherits nothing."""
    events = machine.calls("record_event")
    block = machine.alloc(512)
    machine.record_stream(block, SIDE)
    machine.free(block)
    assert machine.calls("record_event") == events + 1
    machine.poll()
    again = machine.alloc(512)
    assert again == block
    machine.free(again)
    assert machine.calls("record_event") == events + 1


def test_slot_used_on_another_stream_is_not_reused_before_that_is_done(framework):
    machine, engine = framework.machine, framework.engine
    base = serve_one_slot(framework)
    slot = machine.alloc(1024)
    assert slot == base
    machine.record_stream(slot, SIDE)
    machine.hold(SIDE)
    machine.free(slot)
    engine.end_iteration()
    meanwhile = machine.alloc(1024)
    assert meanwhile != base
    machine.free(meanwhile)
    machine.let_go(SIDE)
    assert machine.poll() == 0
    engine.end_iteration()
    again = machine.alloc(1024)
    assert again == base
    machine.free(again)


def test_events_are_used_again(machine: Machine):
    for _ in range(20):
        block = machine.alloc(512)
        machine.record_stream(block, SIDE)
        machine.free(block)
        machine.poll()
    made = machine.calls("create_event")
    for _ in range(20):
        block = machine.alloc(512)
        machine.record_stream(block, SIDE)
        machine.free(block)
        machine.poll()
    assert machine.calls("create_event") == made
