"""`pgmo.managed` over CuPy, whose driver is replaced; over PyTorch: tests/fakecuda."""

import gc

import pytest

import pgmo
from pgmo.errors import AdapterError, OptionError, SessionError
from tests.unit.fake_cupy import alloc

MIB = 1 << 20


def test_arrays_made_inside_are_in_unified_memory_and_stay_valid(cupy):
    before = alloc(cupy, MIB)
    with pgmo.managed(framework="cupy") as memory:
        inside = alloc(cupy, 8 * MIB)
        assert cupy.runtime.used(kind="managed") == memory.bytes == 8 * MIB
        assert cupy.runtime.used() == MIB
    after = alloc(cupy, 2 * MIB)
    assert cupy.runtime.used() == 3 * MIB
    assert cupy.runtime.used(kind="managed") == 8 * MIB
    del before, inside, after
    gc.collect()
    assert cupy.runtime.used(kind="managed") == 0  # its pool went with the last array


def test_more_than_the_card_has_can_be_had_and_is_told(cupy):
    cupy.runtime.limit = 16 * MIB
    held = alloc(cupy, 6 * MIB)
    with pgmo.managed(framework="cupy") as memory:
        blocks = [alloc(cupy, 5 * MIB) for _ in range(3)]
        assert memory.oversubscription == 1.5
        del blocks[:]
    assert memory.peak == 15 * MIB
    assert str(memory) == (
        "pgmo: 15.0 MiB of unified memory on cuda:0, 1.50 times the room of 10.0 MiB"
    )
    del held


def test_the_allocator_that_was_there_is_back_also_after_an_error(cupy):
    allocator = cupy.cuda.get_allocator()
    with pytest.raises(ZeroDivisionError), pgmo.managed(framework="cupy"):
        assert cupy.cuda.get_allocator() != allocator
        _ = 1 / 0
    assert cupy.cuda.get_allocator() == allocator


def test_an_allocator_that_was_put_there_meanwhile_stays(cupy):
    mine = cupy.cuda.MemoryPool().malloc
    with pgmo.managed(framework="cupy"):
        cupy.cuda.set_allocator(mine)
    assert cupy.cuda.get_allocator() == mine


def test_inside_of_using_allocator_it_is_that_of_the_thread(cupy):
    mine = cupy.cuda.MemoryPool().malloc
    with cupy.cuda.using_allocator(mine):
        with pgmo.managed(framework="cupy"):
            block = alloc(cupy, MIB)
            assert cupy.runtime.used(kind="managed") == MIB
        assert cupy.cuda.get_allocator() == mine
    del block


def test_beneath_an_allocator_of_ours_that_the_program_has_installed(cupy):
    ours = pgmo.cupy_allocator()
    cupy.cuda.set_allocator(ours)
    beneath = ours.upstream
    with pgmo.managed(framework="cupy"):
        block = alloc(cupy, MIB)
        assert cupy.runtime.used(kind="managed") == MIB
        assert cupy.cuda.get_allocator() is ours
    assert ours.upstream == beneath
    del block


def test_where_the_card_cannot_it_says_so_and_changes_nothing(cupy):
    cupy.runtime.concurrent = False
    allocator = cupy.cuda.get_allocator()
    with pytest.raises(AdapterError, match="concurrentManagedAccess is 0"):
        pgmo.managed(framework="cupy").__enter__()
    assert cupy.cuda.get_allocator() == allocator


def test_twice_at_once_is_refused(cupy):
    with (
        pgmo.managed(framework="cupy"),
        pytest.raises(SessionError, match="cupy uses unified memory on cuda:0 already"),
    ):
        pgmo.managed(framework="cupy").__enter__()
    with pgmo.managed(framework="cupy", device="cuda:1") as memory:
        assert memory.card.device == "cuda:1"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "cpu"}, "unified memory is for CUDA devices"),
        ({"device": "mps"}, "device='mps' is not supported"),
        ({"framework": "jax"}, "framework='jax' is not one of"),
    ],
)
def test_options_that_cannot_be_used(options, message):
    with pytest.raises(OptionError, match=message):
        pgmo.managed(**options).__enter__()
