"""Tests of the settings with which Triton compiles for the stub, and of notes on compiled code."""

import os

import pytest

from pgmo.rehearsal.child import compilers
from pgmo.rehearsal.environment import of_compilers

torch = pytest.importorskip("torch")


def test_a_driver_by_its_name_and_caches_of_its_own(tmp_path):
    stub = tmp_path / "stub.so"
    stub.write_bytes(b"stub")
    for _ in range(2):  # once for each rank
        found = of_compilers(tmp_path, stub)
    assert (tmp_path / "driver/libcuda.so.1").read_bytes() == b"stub"
    assert found["TRITON_LIBCUDA_PATH"] == str(tmp_path / "driver")
    for name in ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR"):
        assert found[name].startswith(str(tmp_path))


@pytest.mark.parametrize(
    ("there", "given", "note"),
    [
        (False, {}, "torch.compile was left out, because Triton is missing"),
        (True, {"mode": "max-autotune"}, "max-autotune chooses kernels by their times"),
        (True, {"options": {"max_autotune": True}}, "max-autotune chooses kernels by their times"),
        (True, {"mode": "reduce-overhead"}, None),
    ],
)
def test_a_missing_triton_and_autotuning_are_noted(monkeypatch, there, given, note):
    compiled = []
    monkeypatch.setattr(torch, "compile", lambda *_, **options: compiled.append(options))
    monkeypatch.setattr(compilers, "find_spec", lambda _: object() if there else None)
    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "0")
    setup = compilers.Compilers()
    setup.install()
    assert setup.notes() == []
    torch.compile(None, **given)
    assert compiled == [given]
    assert os.environ["TORCHDYNAMO_DISABLE"] == ("0" if there else "1")
    assert [one.startswith(note) for one in setup.notes()] == ([True] if note else [])
