"""The native allocator for CuPy: its cost, lifetimes, exceptions and threads."""

import gc
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import pytest

import pgmo
from pgmo import _core
from pgmo.allocator.adapters.cupy_allocator import free_idle_arena
from tests.unit.allocator.simulated import Oracle
from tests.unit.fake_cupy import alloc

OURS = str(Path(pgmo.__file__).parent)
SIZES = (1000, 3000, 500_000)


def wrap(cuda, upstream):
    return _core.CupyAllocator(cuda, upstream, free_idle_arena)


def iterate(cupy, session, times):
    for _ in range(times):
        with session.iteration():
            for size in SIZES:
                alloc(cupy, size)


def calls_of_ours(work):
    """Return the names of pgmo's functions that a call enters."""
    entered = []

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(OURS):
            entered.append(frame.f_code.co_qualname)

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return entered


def test_no_python_function_is_entered_for_an_array(cupy):
    def arrays():
        for handle in (0, 4096):
            with cupy.cuda.Stream(handle):
                for size in (*SIZES, 7_000_000):
                    alloc(cupy, size)

    with pgmo.optimize(framework="cupy") as session:
        assert calls_of_ours(lambda: session.statistics)  # it finds Python functions
        recorded = calls_of_ours(arrays)
        iterate(cupy, session, 7)
        with session.iteration():
            hits = session.statistics["hits"]
            served = calls_of_ours(arrays)  # the largest one is a miss
            assert session.statistics["hits"] == hits + len(SIZES)
        with cupy.cuda.Device(1):
            elsewhere = calls_of_ours(arrays)
    cupy.cuda.set_allocator(pgmo.cupy_allocator())
    assert recorded == served == elsewhere == calls_of_ours(arrays) == []


def test_more_streams_than_can_be_distinguished_are_passed_on(cupy):
    kinds = []
    with pgmo.optimize(framework="cupy") as session:
        for number in range(70):
            with cupy.cuda.Stream(4096 * number):
                kinds.append(type(alloc(cupy, 1000).mem).__name__)
        with cupy.cuda.Stream(4096):
            assert type(alloc(cupy, 1000).mem).__name__ == "UnownedMemory"
        session.step()
    assert kinds == ["UnownedMemory"] * 64 + ["PooledMemory"] * 6


def test_streams_have_numbers_in_order_of_first_use(cupy):
    route = _core.CupyRoute(_core.Engine())
    allocator = wrap(cupy.cuda, cupy.pool.malloc)
    allocator.attach(0, route)
    for handle in (8192, 1, 4096, 8192):  # 1 is another handle of the default stream
        with cupy.cuda.Stream(handle):
            allocator(1000)
    assert [route.handle(number) for number in range(4)] == [0, 8192, 4096, None]
    route.forget_streams()
    assert [route.handle(number) for number in range(2)] == [0, None]


@pytest.mark.parametrize("size", [0, -5, 1.5, "1000", None])
def test_invalid_sizes_are_passed_on(cupy, size):
    asked = []
    allocator = wrap(cupy.cuda, asked.append)
    allocator.attach(0, _core.CupyRoute(_core.Engine()))
    assert allocator(size) is None
    assert asked == [size]


def test_calls_of_another_form_are_those_of_the_allocator_beneath(cupy):
    def beneath(*arguments, **named):
        return arguments, named

    allocator = wrap(cupy.cuda, beneath)
    allocator.attach(0, _core.CupyRoute(_core.Engine()))
    assert allocator() == ((), {})
    assert allocator(1, 2) == ((1, 2), {})
    assert allocator(size=5) == ((), {"size": 5})


# --- lifetime -----------------------------------------------------------------------------------


def test_a_slot_outlives_session_allocator_and_views(cupy):
    with pgmo.optimize(framework="cupy") as session:
        iterate(cupy, session, 7)
        slot = alloc(cupy, SIZES[0])
        view = cupy.cuda.MemoryPointer(slot.mem, 512)
        live = session.statistics["live_slot_bytes"]
        del slot
        gc.collect()
        assert session.statistics["live_slot_bytes"] == live  # the view keeps it alive
    assert not isinstance(cupy.cuda.get_allocator(), _core.CupyAllocator)
    cupy.pool.free_all_blocks()
    arena = cupy.runtime.used()
    del view
    cupy.pool.free_all_blocks()
    assert cupy.runtime.used() == arena - session.plan.arena == 0


def test_an_allocator_in_a_cycle_is_collected(cupy):
    class Pool:
        def malloc(self, size):
            return self.on_top(size)

    pool = Pool()
    pool.on_top = wrap(cupy.cuda, pool.malloc)
    gone = weakref.ref(pool)
    del pool
    gc.collect()
    assert gone() is None


def test_the_allocator_beneath_may_be_replaced_while_it_is_asked(cupy):
    class Beneath:
        def __call__(self, size):
            allocator.upstream = cupy.pool.malloc
            gc.collect()
            return cupy.pool.malloc(size)

    allocator = wrap(cupy.cuda, Beneath())
    allocator.attach(0, _core.CupyRoute(_core.Engine()))
    assert allocator(1000).mem.size == 1024
    assert allocator.upstream == cupy.pool.malloc


def test_a_session_may_end_while_the_allocator_beneath_is_asked(cupy):
    def beneath(size):
        if len(session.history):
            session.close()
        return cupy.pool.malloc(size)

    cupy.cuda.set_allocator(beneath)
    session = pgmo.optimize(framework="cupy").__enter__()
    iterate(cupy, session, 1)
    block = alloc(cupy, 1000)
    assert cupy.cuda.get_allocator() is beneath
    assert type(block.mem).__name__ == "PooledMemory"


@pytest.mark.parametrize("last", ["pass", "session.close()", "del blocks", "sys.exit()"])
def test_the_interpreter_may_end_with_slots_alive(last):
    code = f"""
import atexit, sys
from tests.unit import fake_cupy
cupy = sys.modules["cupy"] = fake_cupy.make()
import pgmo

class Array:
    def __init__(self, size):
        self.memory, self.me = fake_cupy.alloc(cupy, size), self  # goes with the collector

session = pgmo.optimize(framework="cupy").__enter__()
for _ in range(7):
    with session.iteration():
        [fake_cupy.alloc(cupy, size) for size in {SIZES}]
blocks = [Array(size) for size in {SIZES}]
assert session.statistics["live_slot_bytes"] == sum({SIZES})
sys.blocks = [fake_cupy.alloc(cupy, 1000)]
atexit.register(sys.blocks.clear)
{last}
"""
    root = str(Path(OURS).parent)
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], cwd=root, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stderr) == (0, "")


# --- exceptions ---------------------------------------------------------------------------------


class SpecialError(Exception):
    pass


@pytest.mark.parametrize("name", ["UnownedMemory", "MemoryPointer"])
def test_a_slot_goes_back_when_its_memory_object_cannot_be_made(cupy, name):
    kind = getattr(cupy.cuda, name)

    class Failing(kind):
        failing = False

        def __init__(self, *arguments):
            if Failing.failing:
                raise SpecialError
            super().__init__(*arguments)

    setattr(cupy.cuda, name, Failing)
    with pgmo.optimize(framework="cupy") as session:
        iterate(cupy, session, 7)
        Failing.failing = True
        with pytest.raises(SpecialError):
            alloc(cupy, SIZES[0])
        Failing.failing = False
        session.step()
        assert session.statistics["live_slot_bytes"] == 0
        iterate(cupy, session, 3)
        assert session.history[-1].hit_rate == 1


@pytest.mark.parametrize("where", ["getDevice", "streamIsCapturing", "get_current_stream"])
def test_errors_of_the_driver_are_the_callers(cupy, monkeypatch, where):
    def fail(*_):
        raise cupy.runtime.CUDARuntimeError(46, "cudaErrorDevicesUnavailable")

    owner = cupy.cuda if where == "get_current_stream" else cupy.runtime
    with monkeypatch.context() as patched:
        patched.setattr(owner, where, fail)
        allocator = wrap(cupy.cuda, cupy.pool.malloc)
    allocator.attach(0, _core.CupyRoute(_core.Engine()))
    with cupy.cuda.Stream(4096), pytest.raises(RuntimeError, match="Unavailable"):
        allocator(1000)


@pytest.mark.parametrize(
    "error", [SpecialError("other"), RuntimeError("busy"), KeyboardInterrupt()]
)
def test_other_errors_of_the_allocator_beneath_are_left_alone(cupy, error):
    def beneath(_):
        raise error

    allocator = wrap(cupy.cuda, beneath)
    allocator.attach(0, _core.CupyRoute(_core.Engine()))
    with pytest.raises(type(error)) as caught:
        allocator(1000)
    assert caught.value is error
    assert not hasattr(error, "__notes__")


# --- threads ------------------------------------------------------------------------------------


def test_threads_allocate_and_free_each_others_blocks(cupy):
    oracle, guard, failures = Oracle(), threading.Lock(), []
    shelf = []

    def work(seed):
        try:
            for turn in range(400):
                size = 512 * (1 + (turn * 7 + seed) % 40)
                block = alloc(cupy, size)
                with guard:
                    oracle.add(block.ptr, size)
                    shelf.append(block)
                    taken = shelf.pop(turn % len(shelf))
                    oracle.remove(taken.ptr)
                    del block, taken
        except BaseException as error:
            failures.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with pgmo.optimize(framework="cupy") as session:
            for _ in range(6):
                with session.iteration():
                    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
                    for thread in threads:
                        thread.start()
                    for thread in threads:
                        thread.join()
            assert not failures
            shelf.clear()
            assert session.statistics["live_slot_bytes"] == 0
            assert session.statistics["live_fallback_bytes"] == 0
    finally:
        sys.setswitchinterval(interval)
