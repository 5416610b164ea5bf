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
