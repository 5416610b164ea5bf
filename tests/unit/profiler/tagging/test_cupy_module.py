"""Why CuPy or its devices cannot be had."""

import sys

import pytest

from pgmo.errors import AdapterError
from pgmo.profiler.tagging.cupy_module import cupy_device, imported_cupy
from tests.unit import fake_cupy


def test_a_cupy_that_is_there_and_broken_is_not_called_missing(monkeypatch, tmp_path):
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    (tmp_path / "cupy.py").write_text("raise ImportError('libnvrtc.so.13: no such file')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(AdapterError, match=r"cannot be imported: libnvrtc.so.13: no such file"):
        imported_cupy()
    (tmp_path / "cupy.py").write_text("import no_such_package")
    with pytest.raises(AdapterError, match="cannot be imported: No module named 'no_such_package'"):
        imported_cupy()


def test_the_number_of_a_device():
    cupy = fake_cupy.make(devices=2)
    assert cupy_device(cupy) == 0
    assert cupy_device(cupy, 1) == 1
    with cupy.cuda.Device(1):
        assert cupy_device(cupy) == 1
    for wrong, name in ((2, "cuda:2"), (-1, "cuda:-1"), ("cuda:0", "'cuda:0'")):
        with pytest.raises(AdapterError, match=f"there is no device {name}; this machine has 2"):
            cupy_device(cupy, wrong)


def test_no_device():
    with pytest.raises(AdapterError, match="CuPy finds no CUDA device"):
        cupy_device(fake_cupy.make(devices=0))
