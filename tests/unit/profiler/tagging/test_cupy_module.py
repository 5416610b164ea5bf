"""Tests of messages if CuPy or its devices are missing."""

import sys
from types import SimpleNamespace

import pytest

from pgmo.errors import AdapterError
from pgmo.profiler.tagging.cupy_module import cupy_device, imported_cupy


def test_a_cupy_that_is_there_and_broken_is_not_called_missing(monkeypatch, tmp_path):
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    (tmp_path / "cupy.py").write_text("raise ImportError('libnvrtc.so.13: no such file')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(AdapterError, match=r"cannot be imported: libnvrtc.so.13: no such file"):
        imported_cupy()
    (tmp_path / "cupy.py").write_text("import no_such_package")
    with pytest.raises(AdapterError, match="cannot be imported: No module named 'no_such_package'"):
        imported_cupy()


class Runtime:
    """The two functions of CuPy's runtime that return the devices."""

    CUDARuntimeError = RuntimeError

    def __init__(self, count, current):
        self.getDeviceCount, self.getDevice = lambda: count, lambda: current


@pytest.mark.parametrize(("index", "device"), [(None, 1), (0, 0), (2, 2)])
def test_the_device_is_the_given_or_the_current_one(index, device):
    cupy = SimpleNamespace(cuda=SimpleNamespace(runtime=Runtime(3, 1)))
    assert cupy_device(cupy, index) == device


@pytest.mark.parametrize("index", [-1, 3, "0"])
def test_a_device_that_is_missing_is_an_error(index):
    cupy = SimpleNamespace(cuda=SimpleNamespace(runtime=Runtime(3, 1)))
    with pytest.raises(AdapterError, match="this machine has 3"):
        cupy_device(cupy, index)
