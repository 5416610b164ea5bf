"""Tests of messages if a script cannot be rehearsed."""

import json
import sys

import pytest

from pgmo.errors import RehearsalError
from pgmo.rehearsal.child.memory import requesting_line
from pgmo.rehearsal.child.obstacles import advice
from pgmo.rehearsal.library import find_torch_build


@pytest.mark.parametrize(
    ("error", "begins"),
    [
        ("ModuleNotFoundError: No module named 'triton'", "it needs Triton, which is not"),
        ("RuntimeError: Error building extension 'fused': [1/3] nvcc", "it compiles CUDA code"),
        ("OSError: CUDA_HOME environment variable is not set.", "it compiles CUDA code"),
        ("torch.distributed.DistStoreError: Timed out", "it connects to other processes by itself"),
        ("RuntimeError: NCCL error in: unhandled cuda error", "it calls NCCL directly"),
        ("RuntimeError: cusolver error: NOT_INITIALIZED", "it calls a CUDA library"),
        ("RuntimeError: CUDA driver version is insufficient", "it has CUDA code of its own"),
    ],
)
def test_errors_of_the_place_have_advice(error, begins):
    assert advice(f"Traceback\n{error}\n").startswith(begins)


def test_errors_of_the_script_have_none():
    assert advice("Traceback: triton\nZeroDivisionError: division by zero") is None
    assert advice("") is None


@pytest.fixture
def python(tmp_path):
    """Return a function that makes a Python with an answer to questions about its torch."""

    def make(answer):
        path = tmp_path / "python"
        path.write_text(f"#!/bin/sh\necho '{json.dumps(answer)}'\n")
        path.chmod(0o755)
        return str(path)

    return make


def test_a_torch_without_cuda_is_said(tmp_path, python):
    with pytest.raises(RehearsalError, match="is not a CUDA build"):
        find_torch_build(python(["linux", str(tmp_path)]))
    with pytest.raises(RehearsalError, match="has no CUDA build of torch"):
        find_torch_build(python(["linux", None]))
    with pytest.raises(RehearsalError, match="runs on Linux, and this is darwin"):
        find_torch_build(python(["darwin", None]))
    with pytest.raises(RehearsalError, match="does not run here as Python"):
        find_torch_build(str(tmp_path / "none"))


def test_the_version_of_a_build_is_read_without_importing_it(tmp_path, python):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/libtorch_cuda.so").write_bytes(b"")
    (tmp_path / "version.py").write_text("__version__ = '2.11.0+cu130'\ncuda = '13.0'\n")
    assert find_torch_build(python(["linux", str(tmp_path)])).version == "2.11.0+cu130"


def test_the_line_is_the_scripts_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    library = tmp_path / "site-packages/library.py"
    library.parent.mkdir()
    library.write_text("def fail():\n    raise MemoryError\n")
    (tmp_path / "train.py").write_text("import library\nlibrary.fail()\n")
    monkeypatch.syspath_prepend(str(library.parent))
    code = compile((tmp_path / "train.py").read_text(), str(tmp_path / "train.py"), "exec")
    with pytest.raises(MemoryError) as failed:
        exec(code, {})
    assert requesting_line(failed.value) == "train.py:2: library.fail()"
    sys.modules.pop("library")
