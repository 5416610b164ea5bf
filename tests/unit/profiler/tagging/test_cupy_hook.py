"""Profiles taken by a memory hook of CuPy, whose driver is replaced."""

import sys
import threading

import numpy as np
import pytest

import pgmo
from pgmo.errors import AdapterError, ProfileError, SessionError
from pgmo.profiler.profile import Profile
from pgmo.profiler.tagging.cupy_hook import cupy_recorder
from tests.unit import fake_cupy
from tests.unit.fake_cupy import alloc


@pytest.fixture
def cupy(monkeypatch):
    made = fake_cupy.make()
    monkeypatch.setitem(sys.modules, "cupy", made)
    return made


class Loop:
    """Two layers; the gradient is freed by the next iteration."""

    def __init__(self, cupy):
        self._cupy = cupy
        self.gradient = None

    def __call__(self):
        self.gradient = None
        first = alloc(self._cupy, 4000)
        second = alloc(self._cupy, 1000)
        del first
        self.gradient = alloc(self._cupy, 300)
        del second


def recorded(cupy, times=4, step=True):
    loop = Loop(cupy)
    with cupy_recorder(model_name="loop") as recorder:
        for _ in range(times):
            loop()
            if step:
                recorder.step()
    return recorder


@pytest.mark.parametrize("step", [True, False])
def test_one_iteration_with_the_sizes_that_were_asked_for(cupy, step):
    profile = recorded(cupy, times=6, step=step).profile()
    assert profile.circular
    # Without marks the loop may be cut elsewhere.
    at = int(np.flatnonzero(profile.size == 4000)[0])
    assert np.roll(profile.size, -at).tolist() == [4000, 1000, 300]
    assert np.roll(profile.end - profile.start, -at).tolist() == [2, 2, 1]
    assert profile.meta.framework == "cupy"
    assert profile.meta.device == "cuda:0"
    assert profile.meta.model == "loop"
    assert profile.trace.requests == 18


def test_the_allocator_is_not_touched(cupy):
    before = cupy.cuda.get_allocator()
    with cupy_recorder() as recorder:
        assert cupy.cuda.get_allocator() == before
        block = alloc(cupy, 1000)
        assert type(block.mem).__name__ == "PooledMemory"
    requests = recorder.trace().requests
    del block
    alloc(cupy, 1000)
    assert recorder.trace().requests == requests == 1


def test_the_profile_can_be_planned_and_saved(cupy, tmp_path):
    profile = recorded(cupy).profile()
    profile.save(tmp_path / "loop.pgmoprof")
    again = Profile.load(tmp_path / "loop.pgmoprof")
    plan = pgmo.plan(again, alignment=512)
    assert plan.arena == plan.max_load == 4096 + 1024


def test_the_same_blocks_as_a_session_records(cupy):
    by_hook = recorded(cupy, times=6).profile()
    loop = Loop(cupy)
    with pgmo.optimize(framework="cupy", record_only=True) as session:
        for _ in range(6):
            with session.iteration():
                loop()
    by_session = session.profile
    for column in ("size", "start", "end", "stream"):
        assert getattr(by_hook, column).tolist() == getattr(by_session, column).tolist()


def test_streams_are_numbered_and_other_devices_left_out(cupy):
    with cupy_recorder() as recorder:
        with cupy.cuda.Stream(8192):
            alloc(cupy, 100)
        with cupy.cuda.Stream(4096):
            alloc(cupy, 200)
        alloc(cupy, 300)
        with cupy.cuda.Stream(8192):
            alloc(cupy, 400)
        with cupy.cuda.Device(1):
            alloc(cupy, 500)
    profile = recorder.profile()
    assert profile.size.tolist() == [100, 200, 300, 400]
    assert profile.stream.tolist() == [1, 2, 0, 1]


def test_what_another_thread_frees_ends_when_its_address_comes_again(cupy):
    with cupy_recorder() as recorder:
        held = [alloc(cupy, 1000)]
        thread = threading.Thread(target=held.clear)
        thread.start()
        thread.join()
        alloc(cupy, 2000)
        again = alloc(cupy, 600)  # the pool rounds both to 1024
        profile = recorder.profile()
    assert profile.size.tolist() == [1000, 2000, 600]
    assert profile.address[0] == profile.address[2] == again.ptr
    assert profile.end.tolist() == [2, 2, 3]


def test_failed_and_empty_requests_are_no_blocks(cupy):
    cupy.runtime.limit = 4096
    with cupy_recorder() as recorder:
        alloc(cupy, 0)
        with pytest.raises(cupy.cuda.memory.OutOfMemoryError):
            alloc(cupy, 8192)
        alloc(cupy, 100)
    assert recorder.trace().requests == 1


def test_without_pools_there_is_nothing_to_see(cupy):
    cupy.cuda.set_allocator(cupy.cuda.malloc_async)
    with cupy_recorder() as recorder:
        alloc(cupy, 100)
    with pytest.raises(ProfileError, match="handed out nothing on cuda:0: hooks see neither"):
        recorder.profile()


def test_a_recorder_is_used_once(cupy):
    with cupy_recorder() as recorder, pytest.raises(SessionError, match="entered already"):
        recorder.__enter__()
    with pytest.raises(SessionError, match="make another one"), recorder:
        pass


def test_without_cupy_the_reason_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(AdapterError, match="pip install cupy"):
        cupy_recorder()
