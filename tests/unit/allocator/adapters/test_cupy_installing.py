"""Allocators beneath pgmo's allocator for CuPy, and allocators that wrap it."""

import sys

import pytest

import pgmo
from pgmo import _core
from pgmo.allocator.adapters import cupy as adapter
from pgmo.errors import AdapterError, OptionError
from tests.unit import fake_cupy
from tests.unit.allocator.cupy_program import Program
from tests.unit.allocator.simulated import LAYERS, Loop, run
from tests.unit.fake_cupy import alloc


def test_a_session_inside_of_using_allocator_wraps_that_one(cupy):
    own = cupy.cuda.MemoryPool(cupy.cuda.malloc_managed)
    loop = Loop(Program(cupy), LAYERS)
    before = cupy.cuda.get_allocator()
    with cupy.cuda.using_allocator(own.malloc):
        with pgmo.optimize(framework="cupy") as session:
            run(loop, session, 7)
            assert session.history[-1].hit_rate == 1
            assert {kind for _, _, kind in cupy.runtime.living.values()} == {"managed"}
            loop.finish()
        assert cupy.cuda.get_allocator() == own.malloc
    assert cupy.cuda.get_allocator() == before


@pytest.mark.parametrize("upstream", ["malloc_managed", "malloc_async", "none"])
def test_replay_over_each_allocator_of_cupy(cupy, upstream):
    cupy.cuda.set_allocator(getattr(cupy.cuda, upstream, None))
    loop = Loop(Program(cupy), LAYERS)
    with pgmo.optimize(framework="cupy") as session:
        run(loop, session, 7)
        assert session.history[-1].hit_rate == 1
        loop.finish()


def test_an_allocator_with_less_alignment(cupy):

    def unaligned(size):  # RMM aligns to 256 bytes, too
        return cupy.cuda.MemoryPointer(cupy.cuda.Memory(size + 256), 256)

    cupy.cuda.set_allocator(unaligned)
    with pgmo.optimize(framework="cupy") as session:
        for _ in range(7):
            with session.iteration():
                address = alloc(cupy, 1000).ptr
        assert session.history[-1].hit_rate == 1
        ((base, (_, size, _)),) = cupy.runtime.living.items()
        assert base < address <= base + size - 1024
    assert address % 512 == 0


def test_the_installed_allocator_is_found_and_stays(cupy):
    ours = pgmo.cupy_allocator()
    upstream = cupy.cuda.get_allocator()
    assert pgmo.cupy_allocator() is not ours
    cupy.cuda.set_allocator(ours)
    assert pgmo.cupy_allocator() is ours
    assert type(alloc(cupy, 100).mem).__name__ == "PooledMemory"
    loop = Loop(Program(cupy), LAYERS)
    with pgmo.optimize(framework="cupy") as session:
        assert cupy.cuda.get_allocator() is ours
        run(loop, session, 7)
        assert session.history[-1].hit_rate == 1
        loop.finish()
    assert cupy.cuda.get_allocator() is ours
    assert ours.upstream == upstream


def test_an_allocator_on_top_stays_and_ours_passes_on(cupy):
    loop = Loop(Program(cupy), LAYERS)
    with pytest.warns(UserWarning, match="replaced while the session was open"):
        with pgmo.optimize(framework="cupy") as session:
            run(loop, session, 6)
            inner = cupy.cuda.get_allocator()

            def on_top(size):
                return inner(size)

            cupy.cuda.set_allocator(on_top)
    assert cupy.cuda.get_allocator() is on_top
    assert isinstance(inner, _core.CupyAllocator)
    assert type(alloc(cupy, 100).mem).__name__ == "PooledMemory"
    loop.finish()
    # The old allocator in the chain passes requests on.
    with pgmo.optimize(framework="cupy") as session:
        run(loop, session, 7)
        assert session.history[-1].hit_rate == 1
        loop.finish()
    assert cupy.cuda.get_allocator() is on_top


def test_without_cupy_or_a_device_the_reason_is_reported(monkeypatch):
    monkeypatch.setattr(adapter, "_adapters", {})
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(AdapterError, match="pip install cupy"):
        pgmo.optimize(framework="cupy").__enter__()
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy.make(devices=0))
    with pytest.raises(AdapterError, match="CuPy finds no CUDA device"):
        pgmo.optimize(framework="cupy").__enter__()
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy.make(devices=2))
    with pytest.raises(AdapterError, match="no device cuda:2; this machine has 2"):
        pgmo.optimize(framework="cupy", device="cuda:2").__enter__()


def test_options_that_make_no_sense():
    with pytest.raises(OptionError, match="framework='numpy' is not one of torch, cupy"):
        pgmo.optimize(framework="numpy")
    with pytest.raises(OptionError, match="CuPy's arrays are on CUDA devices"):
        pgmo.optimize(framework="cupy", device="cpu")
