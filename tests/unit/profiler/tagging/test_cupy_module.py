"""Tests of messages if CuPy or its devices are missing."""

import sys

import pytest

from pgmo.errors import AdapterError
from pgmo.profiler.tagging.cupy_module import imported_cupy


def test_a_cupy_that_is_there_and_broken_is_not_called_missing(monkeypatch, tmp_path):
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    (tmp_path / "cupy.py").write_text("raise ImportError('libnvrtc.so.13: no such file')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(AdapterError, match=r"cannot be imported: libnvrtc.so.13: no such file"):
        imported_cupy()
    (tmp_path / "cupy.py").write_text("import no_such_package")
    with pytest.raises(AdapterError, match="cannot be imported: No module named 'no_such_package'"):
        imported_cupy()
