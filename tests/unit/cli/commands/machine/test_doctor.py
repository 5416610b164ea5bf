import json
from pathlib import Path

import pytest

from pgmo.cli.main import main
from pgmo.doctor import examination
from pgmo.doctor.cache import Cache
from pgmo.doctor.compiler import Compiler

FOUND = {
    "torch": {"version": "2.13.0+cu130", "cuda": "13.0", "path": "/t"},
    "cpu_adapter": {"state": "built", "path": "/c/cpu.so"},
    "cuda_adapter": {"state": "missing", "path": "/c/cuda.so"},
    "cuda": {},
    "devices": [{"index": 0, "name": "H200", "memory": 141 << 30, "capability": "9.0"}],
}


@pytest.fixture
def machine(monkeypatch):
    """Return a function that sets what `pgmo doctor` finds."""

    def make(found=FOUND, compiler_error=""):
        monkeypatch.setattr(examination.probe, "ask", lambda build: found)
        compiler = Compiler("g++", "g++ 13.2", compiler_error)
        monkeypatch.setattr(examination, "try_compiler", lambda: compiler)
        cache = Cache(Path("/c"), "", 1 << 40)
        monkeypatch.setattr(examination, "examine_cache", lambda: cache)
        monkeypatch.setattr(examination, "driver_version", lambda: "580.65")
        monkeypatch.setattr(examination, "host_memory", lambda: (1 << 37, 1 << 36))
        monkeypatch.setattr(examination, "conflicting_settings", lambda: iter(()))

    return make


def test_a_machine_with_a_gpu(machine, capsys):
    machine()
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for line in (
        "memory      128 GiB, 64.0 GiB available",
        "torch       2.13.0+cu130, CUDA 13.0",
        "driver      580.65",
        "cuda:0      H200, 141 GiB, compute capability 9.0",
        "compiler    g++ 13.2",
        "adapter     CPU: built",
        "adapter     CUDA: compiled when first used",
    ):
        assert line in lines
    assert lines[-1] == "pgmo works here with PyTorch on the CPU and PyTorch on CUDA."
    assert not any(line.startswith(("Error", "Warning")) for line in lines)


@pytest.mark.parametrize(
    ("unified", "reported"),
    [
        (True, "9.0, unified memory may exceed the card"),
        (False, "9.0, unified memory cannot exceed the card (pgmo.managed and budget= do not"),
    ],
)
def test_whether_unified_memory_works(machine, capsys, unified, reported):
    machine({**FOUND, "devices": [{**FOUND["devices"][0], "unified": unified}]})
    assert main(["doctor"]) == 0
    assert reported in capsys.readouterr().out


def test_a_machine_with_cupy_alone(machine, printed):
    cupy = {"version": "14.2.0", "packages": ["cupy-cuda13x"], "devices": 1, "hip": False}
    machine({"cupy": cupy}, "no C++20")
    shown = printed("doctor")
    assert "cupy        14.2.0 (cupy-cuda13x)\n" in shown
    assert "Warning: PyTorch is not installed\n" in shown
    assert shown.endswith("pgmo works here with CuPy.\n")


def test_a_machine_on_which_nothing_works(machine, capsys):
    machine({}, "no C++20")
    assert main(["doctor"]) == 1
    shown = capsys.readouterr().out
    assert "Error: PyTorch is not installed\n  pip install torch\n" in shown
    assert "Error: g++ cannot compile C++20: no C++20\n" in shown
    assert "pgmo cannot serve any framework here" in shown


def test_json(machine, reported):
    machine({**FOUND, "failed": "ended with signal 11: x"})
    fields = reported("doctor")
    assert fields["works"] == ["PyTorch on the CPU", "PyTorch on CUDA"]
    assert fields["frameworks"]["devices"][0]["name"] == "H200"
    assert fields["problems"][0]["severity"] == "error"
    assert "signal 11" in fields["problems"][0]["what"]
    assert fields["cache"] == {
        "folder": "/c",
        "error": "",
        "free": 1 << 40,
        "distrust": "",
        "adapters": 0,
        "size": 0,
        "left": 0,
        "misplaced": False,
    }


def test_this_machine_is_examined_in_earnest(capsys):
    code = main(["doctor", "--json"])
    fields = json.loads(capsys.readouterr().out)
    assert code == (0 if fields["works"] else 1)
    assert fields["versions"]["pgmo"]
    assert fields["frameworks"].get("failed") is None
