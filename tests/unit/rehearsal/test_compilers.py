"""Tests of the settings with which Triton compiles for the stub, and of notes on compiled code."""

import subprocess
import sys

import pytest

from pgmo.rehearsal.environment import of_compilers


def test_a_driver_by_its_name_and_caches_of_its_own(tmp_path):
    stub = tmp_path / "stub.so"
    stub.write_bytes(b"stub")
    for _ in range(2):  # once for each rank
        found = of_compilers(tmp_path, stub)
    assert (tmp_path / "driver/libcuda.so.1").read_bytes() == b"stub"
    assert found["TRITON_LIBCUDA_PATH"] == str(tmp_path / "driver")
    for name in ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR"):
        assert found[name].startswith(str(tmp_path))


CODE = """
import importlib.util, sys
found = importlib.util.find_spec
there = {there}
importlib.util.find_spec = lambda name, *rest: (
    (object() if there else None) if name == "triton" else found(name, *rest)
)
from pgmo.rehearsal.child.compilers import Compilers
compilers = Compilers()
compilers.install()
import torch
torch.compile(torch.nn.Linear(1, 1), {given})
print("\\n".join(compilers.notes()))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("there", "given", "begins"),
    [
        (False, "", "torch.compile was left out, because Triton is missing"),
        (True, "mode='max-autotune'", "max-autotune chooses kernels by their times"),
        (True, "options={'max_autotune': True}", "max-autotune chooses kernels by their times"),
        (True, "mode='reduce-overhead'", ""),
    ],
)
def test_what_is_said(there, given, begins):
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(there=there, given=given)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    if begins:
        assert done.stdout.startswith(begins)
    else:
        assert not done.stdout.strip()
