"""Sessions over a fake CuPy."""

import pytest

import pgmo
from pgmo.allocator.session.statistics import Phase
from tests.unit.allocator.cupy_program import Program
from tests.unit.allocator.simulated import LAYERS, Loop, run
from tests.unit.fake_cupy import alloc


def test_records_then_serves_everything_from_slots(cupy):
    loop = Loop(Program(cupy), LAYERS)
    before = cupy.cuda.get_allocator()
    with pgmo.optimize(framework="cupy") as session:
        assert session.device == "cuda:0"
        run(loop, session, 6)
        # The pool freed blocks to make room for the arena.
        assert any(line.startswith("free") for line in cupy.runtime.log)
        cupy.runtime.log.clear()
        run(loop, session, 2)
        phases = [one.phase for one in session.history]
        assert phases[-4:] == [Phase.REPLAY] * 4
        assert all(one.hits == one.requests for one in session.history[-4:])
        assert cupy.runtime.log == []  # no call reached the driver
        assert cupy.runtime.used() >= session.plan.arena
        assert pgmo.memory_stats(framework="cupy")["arena_bytes"] == session.plan.arena
        loop.finish()
    assert cupy.cuda.get_allocator() == before
    assert session.profile.meta.framework == "cupy"


def test_slots_of_each_stream_are_in_an_arena_of_that_stream(cupy):
    seen = {}

    def iteration():
        for handle in (0, 4096, 8192):
            with cupy.cuda.Stream(handle):
                seen[handle] = alloc(cupy, 3000).ptr

    cupy.cuda.set_allocator(cupy.cuda.malloc_async)
    with pgmo.optimize(framework="cupy") as session:
        for _ in range(7):
            with session.iteration():
                iteration()
        assert session.history[-1].hit_rate == 1
        assert session.plan.arena == 3 * 3072
        assert session.plan.stream.tolist() == [0, 1, 2]
        kinds = sorted(kind for _, _, kind in cupy.runtime.living.values())
        assert kinds == ["async on 0", "async on 4096", "async on 8192"]
    assert len(set(seen.values())) == 3


def test_each_device_has_a_session_of_its_own(cupy):
    programs = [Program(cupy), Program(cupy)]
    loops = [Loop(programs[0], LAYERS), Loop(programs[1], LAYERS[:3])]
    before = cupy.cuda.get_allocator()
    with (
        pgmo.optimize(framework="cupy", device="cuda:0") as first,
        pgmo.optimize(framework="cupy", device="cuda:1") as second,
    ):
        for _ in range(7):
            for device, session in enumerate((first, second)):
                with cupy.cuda.Device(device):
                    loops[device]()
                session.step()  # while another device is current
        assert first.history[-1].hit_rate == second.history[-1].hit_rate == 1
        assert [program.devices() for program in programs] == [{0}, {1}]
        loops[0].finish()
        second.close()
        assert cupy.cuda.get_allocator() != before  # the first session still serves
    assert cupy.cuda.get_allocator() == before
    with cupy.cuda.Device(1):
        loops[1].finish()
        cupy.pool.free_all_blocks()


@pytest.mark.parametrize("handle", [4096, 2])
def test_captured_streams_and_per_thread_ones_are_not_served(cupy, handle):
    """A graph keeps addresses, and the handle of the per-thread stream is a stream per thread."""
    loop = Loop(Program(cupy), LAYERS)
    with pgmo.optimize(framework="cupy") as session:
        run(loop, session, 6)
        cupy.runtime.capturing = {4096}
        with session.iteration():
            with cupy.cuda.Stream(handle):
                block = alloc(cupy, LAYERS[0])
            assert type(block.mem).__name__ == "PooledMemory"
            loop()
        assert session.history[-1].hit_rate == 1
        loop.finish()


@pytest.mark.parametrize("pooled", [True, False])
def test_out_of_memory_keeps_its_type_and_says_what_pgmo_holds(cupy, pooled):
    if not pooled:
        cupy.cuda.set_allocator(None)
    kind = cupy.cuda.memory.OutOfMemoryError if pooled else cupy.runtime.CUDARuntimeError
    loop = Loop(Program(cupy), LAYERS)
    with pgmo.optimize(framework="cupy") as session:
        run(loop, session, 7)
        cupy.runtime.limit = cupy.runtime.used() + 4096
        with session.iteration():
            loop()
            with pytest.raises(kind) as caught:
                alloc(cupy, 1 << 30)
        arena = pgmo.units.format_bytes(session.plan.arena)
        assert caught.value.__notes__[0].startswith(f"pgmo: arenas hold {arena}, of which ")
        assert "The plan needs" in caught.value.__notes__[0]
        loop.finish()


def test_an_idle_arena_is_given_back_before_memory_runs_out(cupy):
    def iteration():
        first, second = alloc(cupy, 1 << 20), alloc(cupy, 1 << 19)
        del first, second

    with pgmo.optimize(framework="cupy") as session:
        for _ in range(7):
            with session.iteration():
                iteration()
        cupy.pool.free_all_blocks()
        assert cupy.runtime.used() == session.plan.arena
        cupy.runtime.limit = 2 << 20
        with session.iteration():
            large = alloc(cupy, 2 << 20)  # fits only without the arena
            assert cupy.runtime.used() == 2 << 20
            del large
        for _ in range(3):
            with session.iteration():
                iteration()
        assert session.history[-1].hit_rate == 1


def test_no_memory_for_the_arena_is_reported_and_the_loop_goes_on(cupy):
    taken = []
    program = Program(cupy)
    loop = Loop(program, LAYERS)
    with pytest.warns(UserWarning, match="CuPy's allocator: Out of memory allocating"):
        with pgmo.optimize(framework="cupy") as session:
            run(loop, session, 2)
            cupy.runtime.limit = cupy.runtime.used() + 4096
            taken.append(alloc(cupy, 4096))
            run(loop, session, 6)
            assert session.phase is Phase.BYPASS
            loop.finish()


def test_out_of_memory_as_torch_has_it(cupy):
    """The allocator beneath is PyTorch's, whose error is neither CuPy's nor a `MemoryError`."""

    class OutOfMemoryError(RuntimeError):
        pass

    def beneath(size):
        if size > most:
            raise OutOfMemoryError("CUDA out of memory")
        return cupy.pool.malloc(size)

    def iteration():
        first, second = alloc(cupy, 3000), alloc(cupy, 3000)
        del first, second

    most = 1 << 20
    cupy.cuda.set_allocator(beneath)
    with pytest.warns(UserWarning, match="CuPy's allocator: CUDA out of memory"):
        with pgmo.optimize(framework="cupy") as session:
            for turn in range(8):
                most = 5000 if turn == 1 else most  # less than the arena takes
                with session.iteration():
                    iteration()
            assert session.phase is Phase.BYPASS
            with pytest.raises(OutOfMemoryError) as caught:
                alloc(cupy, 8000)
    assert caught.value.__notes__[0].startswith("pgmo: arenas hold 0 B")


def test_an_arena_may_go_back_while_an_exception_is_on_its_way(cupy):
    """The last array is freed by the failing call, and Python code then frees the arena."""
    with pgmo.optimize(framework="cupy") as session:
        for _ in range(7):
            with session.iteration():
                alloc(cupy, 1000)
        last = [alloc(cupy, 1000)]
        assert session.statistics["live_slot_bytes"] == 1000
        arena = session.plan.arena
    cupy.pool.free_all_blocks()
    held = cupy.runtime.used()
    assert held >= arena
    with pytest.raises(ZeroDivisionError, match="division by zero"):
        max(last.pop(), 1 / 0)
    cupy.pool.free_all_blocks()
    assert cupy.runtime.used() <= held - arena


def test_a_block_ends_before_the_memory_beneath_it(cupy):
    seen = []

    class Watched(cupy.cuda.Memory):
        def __del__(self):
            seen.append(session.statistics["live_fallback_bytes"])
            super().__del__()

    cupy.cuda.set_allocator(lambda size: cupy.cuda.MemoryPointer(Watched(size), 0))
    with pgmo.optimize(framework="cupy") as session:
        block = alloc(cupy, 100)
        assert session.statistics["live_fallback_bytes"] == 100
        del block
        assert seen == [0]
