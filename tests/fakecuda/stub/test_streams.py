"""Held streams: what was submitted to them is pending, and so is whatever waits for it."""

import torch

from tests.fakecuda.control import held, hold, release

BYTES = 32 << 20  # so much has a segment of its own


def test_an_event_on_a_held_stream_is_pending_until_it_is_released():
    stream = torch.cuda.Stream()
    early = stream.record_event()
    hold(stream)
    late = stream.record_event()
    assert early.query()
    assert not late.query()
    assert not stream.query()
    release(stream)
    assert late.query()
    assert stream.query()


def test_streams_are_held_one_by_one():
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    with held(first):
        assert second.record_event().query()


def test_who_waits_for_held_work_is_pending_too():
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    with held(first):
        second.wait_event(first.record_event())
        behind = second.record_event()
        assert not behind.query()
    assert behind.query()


def test_synchronizing_finishes_what_is_pending():
    for wait in (
        lambda stream, event: event.synchronize(),
        lambda stream, event: stream.synchronize(),
        lambda stream, event: torch.cuda.synchronize(),
    ):
        stream = torch.cuda.Stream()
        hold(stream)
        event = stream.record_event()
        assert not event.query()
        wait(stream, event)
        assert event.query()


def test_a_block_is_not_used_again_while_another_stream_uses_it():
    torch.cuda.empty_cache()
    other = torch.cuda.Stream()
    with held(other):
        block = torch.empty(BYTES, dtype=torch.uint8, device="cuda")
        address = block.data_ptr()
        block.record_stream(other)
        del block
        meanwhile = torch.empty(BYTES, dtype=torch.uint8, device="cuda")
        assert meanwhile.data_ptr() != address
    # Looks at the event, which is done now.
    torch.empty(512, dtype=torch.uint8, device="cuda")
    after = torch.empty(BYTES, dtype=torch.uint8, device="cuda")
    assert after.data_ptr() == address
