from types import SimpleNamespace

import pytest

from pgmo.doctor.cupy import cupy_packages, cupy_problems, cupy_works, examine_cupy
from tests.unit import fake_cupy

WORKS = {"version": "14.2.0", "packages": ["cupy-cuda13x"], "devices": 1, "hip": False}
OLD = "cudaErrorInsufficientDriver: CUDA driver version is insufficient"


def problem(found, driver="580.65", **environment):
    (one,) = cupy_problems({**WORKS, **found}, driver, environment)
    return one


def test_two_packages_at_once():
    two = problem({"packages": ["cupy-cuda12x", "cupy-cuda13x"]})
    assert "cupy-cuda12x, cupy-cuda13x" in two.what
    assert two.remedy.startswith("pip uninstall cupy-cuda12x cupy-cuda13x")


def test_an_import_that_fails():
    (one,) = cupy_problems(
        {"error": "ImportError: libnvrtc.so\nmore", "packages": ["cupy-cuda13x"]}, "", {}
    )
    assert one.what == "CuPy cannot be imported: ImportError: libnvrtc.so"
    assert one.remedy.endswith("--force-reinstall cupy-cuda13x")


def test_no_device():
    without = {"devices": 0, "why": OLD, "built_for": 13020}
    assert not cupy_works({**WORKS, **without})
    assert "there is no GPU driver" in problem(without, driver="").what
    old = problem(without)
    assert "built for CUDA 13, and the driver 580.65 is too old for it" in old.what
    assert "cupy-cuda12x" in old.remedy
    hidden = problem({"devices": 0})
    assert "finds no GPU: it counts 0 devices" in hidden.what
    assert "nvidia-smi" in hidden.remedy


def test_without_the_libraries_of_cuda():
    lacking = problem({"lacks": "CuPy failed to load libnvrtc.so.13: no such file\nmore"})
    assert lacking.what.endswith("libraries: CuPy failed to load libnvrtc.so.13: no such file")
    assert "pip install 'cupy-cuda13x[ctk]'" in lacking.remedy


def test_rocm_is_not_served():
    assert not cupy_works({**WORKS, "hip": True})
    assert "ROCm" in problem({"hip": True}).what


def test_the_per_thread_default_stream():
    assert "per-thread default stream" in problem({}, CUPY_CUDA_PTDS="1").what


@pytest.mark.parametrize("devices", [0, 2])
def test_devices_are_counted(devices):
    runtime = fake_cupy.make(devices=devices).runtime
    runtime.is_hip, runtime.runtimeGetVersion = False, lambda: 13020
    nvrtc = SimpleNamespace(getVersion=lambda: (13, 2))
    cuda = SimpleNamespace(runtime=runtime, nvrtc=nvrtc, cublas=object())
    found = examine_cupy(SimpleNamespace(cuda=cuda))
    assert "lacks" not in found
    assert (found["devices"], found["built_for"], found["hip"]) == (devices, 13020, False)
    assert ("why" in found) == (devices == 0)
    del cuda.cublas
    assert ("lacks" in examine_cupy(SimpleNamespace(cuda=cuda))) == (devices > 0)


def test_packages_are_found_by_their_names(monkeypatch):
    names = ["cupy_cuda13x", "cupy-xarray", "CuPy", "numpy", "cupy-rocm-7-0", "bm3d-cupy"]
    made = [SimpleNamespace(metadata={"Name": name}) for name in names]
    monkeypatch.setattr("pgmo.doctor.cupy.distributions", lambda: made)
    assert cupy_packages() == ["cupy", "cupy-cuda13x", "cupy-rocm-7-0"]
