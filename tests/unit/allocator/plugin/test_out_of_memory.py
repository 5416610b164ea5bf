"""What happens when memory runs out, and how it is returned."""

import subprocess
import sys

import pytest

from pgmo.errors import AdapterError
from tests.unit.allocator.plugin.machine import (
    MIB,
    SIDE,
    Machine,
    PluginFramework,
    attach_arena,
    serve_one_slot,
)
from tests.unit.allocator.simulated import LAYERS, Loop, open_session


def test_out_of_memory_says_what_torch_says_first(machine: Machine):
    machine.capacity(64 * MIB)
    block = machine.alloc(16 * MIB)
    with pytest.raises(RuntimeError) as caught:
        machine.alloc(50 * MIB + 512 * 1024)
    assert str(caught.value) == (
        "CUDA out of memory. Tried to allocate 50.50 MiB. "
        f"GPU {machine.ordinal} has a total capacity of 64.00 MiB of which 48.00 MiB is free. "
        "The driver's memory pool holds 16.00 MiB for this process, of which 16.00 MiB are in use."
    )
    machine.free(block)
    machine.free(machine.alloc(50 * MIB))  # and goes on


def test_out_of_memory_says_what_pgmo_holds(framework: PluginFramework):
    machine = framework.machine
    machine.capacity(64 * MIB)
    serve_one_slot(framework, 8 * MIB)
    slot, missed = machine.alloc(8 * MIB), machine.alloc(3 * MIB)
    framework.advise("Try a smaller batch.")
    with pytest.raises(RuntimeError) as caught:
        machine.alloc(60 * MIB)
    assert str(caught.value).endswith(
        "pgmo's arenas hold 8.00 MiB, of which 8.00 MiB are in use; blocks outside the plan that "
        "pgmo knows of hold 3.00 MiB. Try a smaller batch."
    )
    for block in (slot, missed):
        machine.free(block)


def test_unused_memory_is_returned_before_giving_up(machine: Machine):
    machine.capacity(64 * MIB)
    machine.free(machine.alloc(40 * MIB))
    assert machine.cuda.fake_cached(machine.ordinal) == 40 * MIB
    trims = machine.calls("trim")
    block = machine.alloc(60 * MIB)
    assert machine.calls("trim") == trims + 1
    machine.free(block)


def test_frees_that_wait_are_waited_for_before_giving_up(machine: Machine):
    machine.capacity(64 * MIB)
    block = machine.alloc(40 * MIB)
    machine.record_stream(block, SIDE)
    machine.hold(SIDE)
    machine.free(block)
    larger = machine.alloc(60 * MIB)
    machine.let_go(SIDE)
    machine.free(larger)


def test_arena_that_does_not_fit(framework: PluginFramework):
    framework.machine.capacity(64 * MIB)
    framework.install()
    with pytest.raises(AdapterError, match=r"^CUDA out of memory\. Tried to allocate 1\.00 GiB\."):
        framework.take_arena(1 << 30, 0)


def test_memory_fraction(machine: Machine):
    machine.capacity(64 * MIB)
    machine.set_fraction(0.5)
    block = machine.alloc(30 * MIB)
    with pytest.raises(RuntimeError, match=r"Tried to allocate 3\.00 MiB.* 32\.00 MiB allowed\."):
        machine.alloc(3 * MIB)
    machine.set_fraction(1.0)
    machine.free(machine.alloc(3 * MIB))
    machine.free(block)
    with pytest.raises(RuntimeError, match="refused"):
        machine.set_fraction(1.5)


def test_empty_cache_returns_what_waited_too(framework: PluginFramework):
    machine = framework.machine
    block = machine.alloc(4 * MIB)
    machine.record_stream(block, SIDE)
    machine.hold(SIDE)
    machine.free(block)
    framework.empty_cache()
    assert machine.used() == machine.cuda.fake_cached(machine.ordinal) == 0
    machine.let_go(SIDE)


def test_memory_stats_count_arenas_and_graphs(framework: PluginFramework):
    machine = framework.machine
    framework.install()
    attach_arena(framework, 8 * MIB)
    machine.begin_pool(1, SIDE)
    block = machine.alloc(MIB, SIDE)
    assert framework.memory_stats() == {"driver_bytes": 8 * MIB, "graph_bytes": MIB}
    machine.free(block)
    machine.end_pool(1)
    machine.release_pool(1)
    framework.engine.detach_arena()
    assert framework.memory_stats() == {"driver_bytes": 0, "graph_bytes": 0}


@pytest.mark.parametrize("name", ["/nowhere/libcuda.so.1", "libm.so.6"])
def test_missing_driver_is_an_error_and_not_a_crash(libraries, name):
    script = (
        "import ctypes, sys\n"
        "from pgmo import _core\n"
        "plugin, caller = ctypes.CDLL(_core.__file__), ctypes.CDLL(sys.argv[1])\n"
        "text = ctypes.create_string_buffer(4096)\n"
        "size = ctypes.c_size_t(4096)\n"
        "caller.torch_alloc(plugin.pgmo_plugin_alloc, size, 0, None, text, size)\n"
        "plugin.pgmo_plugin_free(ctypes.c_void_p(4096), size, 1, None)\n"
        "print(text.value.decode())\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script, str(libraries.torch)],
        env={"PGMO_LIBCUDA": name, "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    reason = "cannot be loaded: /nowhere" if name.startswith("/nowhere") else "has no cuInit"
    assert "pgmo: the CUDA driver" in ended.stdout
    assert reason in ended.stdout


# --- an arena that lies idle --------------------------------------------------------------------


def idle_arena(framework: PluginFramework, paused: bool) -> Machine:
    """48 of 64 MiB are an arena in which nothing lives."""
    machine = framework.machine
    machine.capacity(64 * MIB)
    serve_one_slot(framework, 48 * MIB)
    if paused:
        framework.engine.pause()
    return machine


@pytest.mark.parametrize("paused", [True, False])
def test_between_steps_a_request_gets_the_arenas_memory(framework: PluginFramework, paused: bool):
    machine = idle_arena(framework, paused)
    block = machine.alloc(60 * MIB)
    assert machine.used() == 60 * MIB
    assert not framework.engine.has_arena
    machine.free(block)


@pytest.mark.parametrize("paused", [True, False])
def test_a_request_that_fits_leaves_the_arena_alone(framework: PluginFramework, paused: bool):
    machine = idle_arena(framework, paused)
    block = machine.alloc(10 * MIB)
    assert framework.engine.has_arena
    machine.free(block)


@pytest.mark.parametrize("paused", [True, False])
def test_an_arena_in_which_a_block_lives_stays(framework: PluginFramework, paused: bool):
    machine = idle_arena(framework, paused=False)
    slot = machine.alloc(48 * MIB)
    if paused:
        framework.engine.pause()
    with pytest.raises(RuntimeError, match="CUDA out of memory"):
        machine.alloc(60 * MIB)
    assert framework.engine.has_arena
    machine.free(slot)
    machine.free(machine.alloc(60 * MIB))


def test_an_arena_stays_while_a_pool_is_active(framework: PluginFramework):
    machine = idle_arena(framework, paused=True)
    machine.begin_pool(1, SIDE)
    for stream in (0, SIDE):
        with pytest.raises(RuntimeError, match="CUDA out of memory"):
            machine.alloc(60 * MIB, stream)
    assert framework.engine.has_arena
    machine.end_pool(1)
    machine.release_pool(1)
    machine.free(machine.alloc(60 * MIB))


def test_when_it_does_not_help_the_text_tells_of_no_arena(framework: PluginFramework):
    machine = idle_arena(framework, paused=True)
    with pytest.raises(RuntimeError, match=r"^CUDA out of memory\..*holds 0 bytes") as caught:
        machine.alloc(70 * MIB)
    assert "arenas hold" not in str(caught.value)
    assert not framework.engine.has_arena


def run_and_drop(loop, session, times):
    """Gradients are dropped at the end of each iteration, so that nothing lives between two."""
    for _ in range(times):
        with session.iteration():
            loop()
            loop.drop()


def test_the_arena_comes_back_at_the_next_step(framework: PluginFramework):
    machine = framework.machine
    loop = Loop(framework, [size << 8 for size in LAYERS])
    with open_session(framework) as session:
        run_and_drop(loop, session, 6)
        machine.capacity(machine.used() + MIB)
        large = machine.used() // 2
        with session.pause():  # an evaluation
            machine.free(machine.alloc(large))
        assert not framework.engine.has_arena
        run_and_drop(loop, session, 1)
        assert framework.engine.has_arena
        run_and_drop(loop, session, 1)
        assert session.history[-1].hit_rate == 1
        loop.finish()
    assert machine.used() == 0
