"""The package CuPy itself, as far as it goes without a driver: names, signatures, memory objects.

Whatever asks the driver (devices, streams, pools) is that of the fake.
"""

import gc
import sys
import types

import pytest

import pgmo
from pgmo.allocator.adapters import cupy as adapter
from pgmo.profiler.tagging.cupy_hook import CupyRecorder
from tests.unit import fake_cupy
from tests.unit.allocator.cupy_program import Program
from tests.unit.allocator.simulated import LAYERS, Loop, run
from tests.unit.fake_cupy import alloc

real = pytest.importorskip("cupy")

REAL = (
    *("MemoryPointer", "UnownedMemory", "MemoryHook", "PythonFunctionAllocator", "memory"),
    *("set_allocator", "get_allocator", "using_allocator"),
)


@pytest.fixture
def cupy(monkeypatch):
    """The package with the fake's driver, over an allocator without a pool."""
    monkeypatch.setenv("PGMO_CHECK", "1")
    monkeypatch.setattr(adapter, "_adapters", {})
    fake = fake_cupy.make()
    made = types.ModuleType("cupy")
    made.__version__, made.runtime = real.__version__, fake.runtime
    made.cuda = types.SimpleNamespace(**vars(fake.cuda))
    for name in REAL:
        setattr(made.cuda, name, getattr(real.cuda, name))
    fake.runtime.CUDARuntimeError = real.cuda.runtime.CUDARuntimeError
    monkeypatch.setitem(sys.modules, "cupy", made)

    class Owner:
        def __init__(self, size):
            try:
                self.address = fake.runtime.malloc(size)
            except fake_cupy.CUDARuntimeError as error:
                raise real.cuda.runtime.CUDARuntimeError(error.status) from None

        def __del__(self):
            if hasattr(self, "address"):
                fake.runtime.free(self.address)

    def allocator(size):
        owner, device = Owner(size), fake.runtime.getDevice()
        memory = real.cuda.UnownedMemory(owner.address, size, owner, device)
        return real.cuda.MemoryPointer(memory, 0)

    before = real.cuda.get_allocator()
    real.cuda.set_allocator(allocator)
    yield made
    gc.collect()
    assert real.cuda.get_allocator() is allocator
    real.cuda.set_allocator(before)
    assert made.runtime.living == {}


def test_a_session_serves_its_memory_objects(cupy):
    loop = Loop(Program(cupy), LAYERS)
    with pgmo.optimize(framework="cupy") as session:
        run(loop, session, 7)
        assert session.history[-1].hit_rate == 1
        block = alloc(cupy, LAYERS[0])
        assert isinstance(block.mem, real.cuda.UnownedMemory)
        assert isinstance(block + 512, real.cuda.MemoryPointer)  # what a view is made of
        del block
        loop.finish()


def test_its_errors_that_memory_has_run_out_are_known(cupy):
    loop = Loop(Program(cupy), LAYERS)
    with pgmo.optimize(framework="cupy") as session:
        run(loop, session, 7)
        cupy.runtime.limit = cupy.runtime.used() + 4096
        with pytest.raises(real.cuda.runtime.CUDARuntimeError) as caught:
            alloc(cupy, 1 << 30)
        assert "pgmo: arenas hold" in caught.value.__notes__[0]
        loop.finish()


def test_a_session_inside_of_using_allocator(cupy):
    own = real.cuda.get_allocator()
    with real.cuda.using_allocator(lambda size: own(size)):
        inner = real.cuda.get_allocator()
        loop = Loop(Program(cupy), LAYERS)
        with pgmo.optimize(framework="cupy") as session:
            run(loop, session, 7)
            assert session.history[-1].hit_rate == 1
            loop.finish()
        assert real.cuda.get_allocator() is inner


def test_the_fake_has_no_name_that_the_package_lacks():
    fake = fake_cupy.make().cuda
    for name in filter(lambda name: not name.startswith("__"), vars(fake)):
        assert hasattr(real.cuda, name), name
    for name in filter(lambda name: not name.startswith("__"), vars(fake_cupy.Runtime)):
        assert name == "used" or hasattr(real.cuda.runtime, name), name
    for name in vars(fake.memory):
        assert hasattr(real.cuda.memory, name), name
    newer = {"from_external"} if int(real.__version__.split(".")[0]) < 14 else set()
    for name in filter(lambda name: not name.startswith("__"), vars(fake.Stream)):
        assert name in newer or hasattr(real.cuda.Stream, name), name


@pytest.mark.filterwarnings("error")
def test_streams_are_made_of_their_handles():
    made = adapter.Cupy(0)
    assert [made._stream_of(handle).ptr for handle in (0, 4096)] == [0, 4096]


def test_functions_of_an_allocator_are_called_with_the_device():
    """As those of `pgmo.cupy_torch_allocator` are."""
    called = []

    def malloc(size, device):
        called.append((size, device))
        return 4096

    def free(address, device):
        called.append((address, device))

    memory = real.cuda.memory.PythonFunctionAllocatorMemory(1000, malloc, free, 1)
    assert (memory.ptr, memory.size, memory.device_id) == (4096, 1000, 1)
    del memory
    assert called == [(1000, 1), (4096, 1)]


def test_its_hooks_tell_a_recorder(cupy):
    with CupyRecorder(cupy, 0) as recorder:
        (hook,) = real.cuda.memory_hook.get_memory_hooks().values()
        block = {"device_id": 0, "mem_size": 512, "mem_ptr": 4096, "pmem_id": 1}
        hook.malloc_preprocess(device_id=0, size=100, mem_size=512)
        hook.malloc_postprocess(size=100, **block)
        hook.free_preprocess(**block)
        hook.free_postprocess(**block)
    assert not real.cuda.memory_hook.get_memory_hooks()
    profile = recorder.profile()
    assert profile.size.tolist() == [100]
