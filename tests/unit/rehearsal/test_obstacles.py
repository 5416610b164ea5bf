"""Tests of messages if a script cannot be rehearsed."""

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


def test_a_torch_without_cuda_is_said(tmp_path):
    python = tmp_path / "python"
    folder = tmp_path / "torch"
    (folder / "lib").mkdir(parents=True)
    python.write_text(f'#!/bin/sh\necho \'["linux", "{folder}"]\'\n')
    python.chmod(0o755)
    with pytest.raises(RehearsalError, match="is not a CUDA build"):
        find_torch_build(str(python))
    python.write_text("#!/bin/sh\necho '[\"linux\", null]'\n")
    with pytest.raises(RehearsalError, match="has no CUDA build of torch"):
        find_torch_build(str(python))
    python.write_text("#!/bin/sh\necho '[\"darwin\", null]'\n")
    with pytest.raises(RehearsalError, match="runs on Linux, and this is darwin"):
        find_torch_build(str(python))
    with pytest.raises(RehearsalError, match="does not run here as Python"):
        find_torch_build(str(tmp_path / "none"))


def test_the_version_of_a_build_is_read_without_importing_it(tmp_path):
    folder = tmp_path / "torch"
    (folder / "lib").mkdir(parents=True)
    (folder / "lib/libtorch_cuda.so").write_bytes(b"")
    (folder / "version.py").write_text("__version__ = '2.11.0+cu130'\ncuda = '13.0'\n")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho \'["linux", "{folder}"]\'\n')
    python.chmod(0o755)
    assert find_torch_build(str(python)).version == "2.11.0+cu130"


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
