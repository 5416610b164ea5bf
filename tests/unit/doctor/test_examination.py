from pathlib import Path

import pytest

from pgmo.doctor.cache import Cache
from pgmo.doctor.compiler import Compiler
from pgmo.doctor.examination import (
    adapter_problems,
    driver_version,
    framework_problems,
    served,
)

GOOD, NONE = Compiler("g++", "g++ 13", ""), Compiler("", "", "none\nget one")
OLD = Compiler("g++", "g++ 7", "no concepts")
CACHE, READ_ONLY = Cache(Path("/c"), "", 1), Cache(Path("/c"), "Read-only file system (/)", -1)
MISPLACED = Cache(Path("/c"), "Not a directory (/c)", -1, misplaced=True)
DISTRUSTED = Cache(Path("/c"), "", 1, distrust="/c/adapters belongs to user 7, you are 8")
CPU = {"torch": {"version": "2.13", "cuda": None}, "cpu_adapter": {"state": "missing"}}
CUDA = {
    "torch": {"version": "2.13", "cuda": "13.0"},
    "cpu_adapter": {"state": "built"},
    "cuda_adapter": {"state": "missing"},
    "cuda": {},
    "devices": [{"index": 0}],
}


def texts(problems):
    return [(problem.severity, problem.what) for problem in problems]


def test_served_frameworks_are_listed():
    assert list(served(CPU, GOOD, CACHE)) == ["PyTorch on the CPU"]
    assert list(served(CPU, NONE, CACHE)) == []
    assert list(served(CPU, GOOD, READ_ONLY)) == ["PyTorch on the CPU"]  # compiled in each process
    assert list(served(CPU, GOOD, MISPLACED)) == []
    assert list(served({**CPU, "cpu_adapter": {"state": "damaged"}}, GOOD, CACHE)) != []
    assert list(served({}, GOOD, CACHE)) == []
    assert list(served(CUDA, GOOD, CACHE)) == ["PyTorch on the CPU", "PyTorch on CUDA"]
    assert list(served(CUDA, GOOD, MISPLACED)) == ["PyTorch on the CPU"]  # its adapter exists


HIDDEN = {**CUDA, "devices": [], "cuda": {"error": "too old\nmore"}}
CRASH = {"failed": "ended with signal 11: x"}
BROKEN = {"torch": {"error": "OSError: libc10.so"}}


@pytest.mark.parametrize(
    ("frameworks", "driver", "severity", "what"),
    [
        ({}, "", "error", "PyTorch is not installed"),
        (BROKEN, "", "error", "PyTorch cannot be imported: OSError: libc10.so"),
        (CRASH, "", "error", "the process that examines the frameworks ended with signal 11: x"),
        (CPU, "", "warning", "there is no NVIDIA driver: only tensors on the CPU can be served"),
        (CPU, "580.65", "warning", "there is a GPU driver (580.65), but PyTorch 2.13 was built"),
        (HIDDEN, "1", "warning", "PyTorch finds no GPU: too old"),
    ],
)
def test_problems_of_pytorch(frameworks, driver, severity, what):
    (problem,) = framework_problems(frameworks, driver)
    assert problem.severity == severity
    assert problem.what.startswith(what)


def test_pytorch_with_a_gpu_has_no_problem():
    assert not texts(framework_problems(CUDA, "580.65"))


def test_compilers():
    (none,) = adapter_problems(CPU, NONE, CACHE)
    assert (none.what, none.remedy) == ("none", "get one")
    (old,) = adapter_problems(CPU, OLD, CACHE)
    assert old.what == "g++ cannot compile C++20: no concepts"
    assert not list(adapter_problems(CUDA, GOOD, CACHE))


def test_no_compiler_is_missed_where_the_adapters_come_with_pgmo():
    ready = {**CPU, "cpu_adapter": {"state": "prebuilt", "path": "/p/a.so"}}
    assert not list(adapter_problems(ready, NONE, CACHE))
    other = {"state": "impossible", "reason": "no compiler"}
    (none,) = adapter_problems({**ready, "cuda_adapter": other}, NONE, CACHE)
    assert none.severity == "error"


def test_caches():
    (problem,) = adapter_problems(CPU, GOOD, READ_ONLY)
    assert (problem.severity, problem.what) == (
        "warning",
        "the cache folder /c cannot be written: Read-only file system (/); each process compiles "
        "the adapters again",
    )
    (problem,) = adapter_problems(CPU, GOOD, MISPLACED)
    assert problem.severity == "error"
    (problem,) = adapter_problems(CPU, GOOD, DISTRUSTED)
    assert problem.what == (
        "adapters in /c are not loaded, because /c/adapters belongs to user 7, you are 8; each "
        "process compiles the adapters again"
    )


def test_adapters():
    broken = {**CPU, "cpu_adapter": {"state": "broken", "path": "/c/a.so", "reason": "bad"}}
    (problem,) = adapter_problems(broken, GOOD, CACHE)
    assert "delete /c/a.so" in problem.remedy
    headless = {"state": "impossible", "reason": "no headers"}
    (problem,) = adapter_problems({**CUDA, "cuda_adapter": headless}, GOOD, CACHE)
    assert (problem.severity, problem.what) == (
        "error",
        "the adapter for CUDA cannot be built: no headers",
    )
    without = {**CUDA, "cuda_adapter": headless, "devices": []}
    assert texts(adapter_problems(without, GOOD, CACHE))[0][0] == "warning"


def test_the_drivers_version(tmp_path):
    proc = tmp_path / "version"
    proc.write_text(
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 07:20:47 UTC 2025\n"
        "GCC version:  gcc version 12.2.0\n"
    )
    assert driver_version(proc) == "580.65.06"


def test_the_drivers_version_by_nvidia_smi(tmp_path, monkeypatch):
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 570.1\necho 570.1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert driver_version(tmp_path / "none") == "570.1"
    program.write_text("#!/bin/sh\necho no devices were found\nexit 9\n")
    assert driver_version(tmp_path / "none") == ""
