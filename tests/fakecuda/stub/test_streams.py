"""Work on held streams is pending, and so is work that waits for it."""

import torch

from tests.fakecuda.control import held, hold, release


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


def test_a_stream_that_waits_for_held_work_is_pending():
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
