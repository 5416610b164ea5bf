"""A slot that other streams use is not reused before these streams have finished."""

import ctypes
import os

import pytest
import torch

import pgmo
from pgmo.rehearsal.control import hold, release
from tests.fakecuda.adapter.conftest import block, pending, replaying, twice
from tests.fakecuda.control import held

OTHERS = {
    "another": torch.cuda.Stream,
    "of another device": lambda: torch.cuda.Stream(device=1),
    "the default one of another device": lambda: torch.cuda.default_stream(1),
}


@pytest.mark.parametrize("other", OTHERS)
def test_a_slot_waits_for_another_stream(session, other):
    stream = OTHERS[other]()
    with session.iteration():
        first = block()
        slot = first.data_ptr()
        with pending(stream):
            first.record_stream(stream)
            del first
            assert block().data_ptr() != slot
        assert torch.cuda.current_device() == 0
    with session.iteration():
        assert {block().data_ptr() for _ in range(2)} == {slot}


def test_all_streams_count(session):
    one, other = torch.cuda.Stream(), torch.cuda.Stream()
    with session.iteration():
        first = block()
        slot = first.data_ptr()
        with held(other):
            with held(one):
                for stream in (one, other, one):
                    first.record_stream(stream)
                del first
            assert block().data_ptr() != slot
    with session.iteration():
        assert block().data_ptr() == slot


def test_its_own_stream_is_none_to_wait_for(session):
    own = torch.cuda.current_stream()
    with session.iteration(), held(own):
        first = block()
        slot = first.data_ptr()
        first.record_stream(own)
        del first
        assert block().data_ptr() == slot


def test_one_use_delays_one_life_only(session):
    stream = torch.cuda.Stream()
    with session.iteration():
        first = block()
        slot = first.data_ptr()
        first.record_stream(stream)
        del first
        second = block()
        assert second.data_ptr() == slot
    with held(stream), session.iteration():
        del second
        assert block().data_ptr() == slot


def test_a_slot_of_another_stream_waits_for_the_default_one():
    side, default = torch.cuda.Stream(), torch.cuda.default_stream()

    def work():
        with torch.cuda.stream(side):
            twice()

    with replaying(work) as session, session.iteration(), torch.cuda.stream(side):
        first = block()
        slot = first.data_ptr()
        with held(default):
            first.record_stream(default)
            del first
            assert block().data_ptr() != slot


def test_a_slot_may_be_freed_while_another_device_is_current(session):
    stream = torch.cuda.Stream()
    with session.iteration():
        first = block()
        slot = first.data_ptr()
        with held(stream):
            first.record_stream(stream)
            with torch.cuda.device(1):
                del first
                assert torch.cuda.current_device() == 1
            assert block().data_ptr() != slot


def test_a_slow_stream_hides_none_of_those_that_wait_behind_it():
    with replaying(lambda: [block() for _ in range(8)]) as session:
        slow, quick = torch.cuda.Stream(), torch.cuda.Stream()
        with session.iteration():
            blocks = [block() for _ in range(8)]
            slots = [one.data_ptr() for one in blocks]
            hold(slow)
            for at in range(8):
                blocks[at].record_stream(slow if at < 5 else quick)
            while blocks:
                del blocks[0]  # blocks of the slow stream wait first
        for _ in range(2):
            with session.iteration():
                served = [block() for _ in range(8)]
                addresses = {one.data_ptr() for one in served}
                served.clear()
        assert [at for at in range(8) if slots[at] in addresses] == [5, 6, 7]
        release(slow)
        for _ in range(2):
            with session.iteration():
                served = [block() for _ in range(8)]
                addresses = {one.data_ptr() for one in served}
                served.clear()
        assert addresses == set(slots)


@pytest.mark.parametrize("device", [0, 1])
def test_the_arena_goes_back_at_the_end_though_a_slot_waits(session, device):
    """No later request would free the arena, so closing waits for the stream."""
    stream = torch.cuda.Stream(device=device)
    with session.iteration():
        first = block()
    arena = session.plan.arena
    before = torch.cuda.memory_allocated()
    with held(stream):
        first.record_stream(stream)
        del first
        session.close()
        assert stream.query()
        assert torch.cuda.memory_allocated() == before - arena


@pytest.mark.parametrize("iterations", [0, 8])
def test_a_block_that_outlives_the_session_is_freed_behind_all_work(iterations):
    """PyTorch ignores streams that are recorded for a block whose deleter it does not know."""
    stream = torch.cuda.Stream()
    with pgmo.optimize(device="cuda", tags=False, pages=False) as session:
        for _ in range(iterations):
            with session.iteration():
                twice()
        with session.iteration():  # served from a slot (8), or only recorded (0)
            first = block()
    with held(stream):
        first.record_stream(stream)
        assert not stream.record_event().query()
        del first
        assert stream.query()


def test_streams_beyond_those_that_have_numbers_are_waited_for_too(session):
    """The engine distinguishes 64 streams; PyTorch serves requests of further ones."""
    stub, handle = ctypes.CDLL(os.environ["PGMO_FAKECUDA"]), ctypes.c_void_p()
    streams = []
    for _ in range(70):
        assert stub.cudaStreamCreateWithFlags(ctypes.byref(handle), 1) == 0
        streams.append(torch.cuda.ExternalStream(handle.value))
    with session.iteration():
        for stream in streams:
            with torch.cuda.stream(stream):
                torch.empty(512, dtype=torch.uint8, device="cuda")
    with session.iteration():
        first = block()
        slot = first.data_ptr()
        with held(streams[-1]):
            first.record_stream(streams[-1])
            del first
            assert block().data_ptr() != slot
