"""The adapter for CUDA without a device: its compilation, and a failure to uninstall it."""

from types import SimpleNamespace

import numpy as np
import pytest

from pgmo.allocator.adapters import torch_cuda
from pgmo.allocator.adapters.torch_source import pybind_abi
from pgmo.errors import AdapterError


def test_the_module_is_compiled_as_torchs_own_was():
    old = SimpleNamespace(
        _PYBIND11_COMPILER_TYPE="_gcc", _PYBIND11_STDLIB=None, _PYBIND11_BUILD_ABI="_cxxabi1011"
    )
    assert pybind_abi(old) == [
        '-DPYBIND11_COMPILER_TYPE="_gcc"',
        '-DPYBIND11_BUILD_ABI="_cxxabi1011"',
    ]
    assert pybind_abi(SimpleNamespace()) == []


class Library:
    """Library of an adapter beneath another allocator. Records the calls of its functions."""

    def __init__(self):
        self.calls = []

    def ask(self, *call):
        self.calls.append(call)

    def call(self, *call):
        self.calls.append(call)
        if call[0] == "pgmo_uninstall":
            raise AdapterError("another allocator was installed on top")


def test_an_adapter_that_cannot_be_uninstalled_serves_no_pages(monkeypatch):
    adapter = object.__new__(torch_cuda.TorchCuda)
    adapter.index, adapter._limit, adapter._is_open, adapter.library = 0, 0, True, Library()
    none = {"address": np.zeros(0, np.uint64), "kind": np.zeros(0, np.uint8)}
    adapter.engine = SimpleNamespace(living=lambda: none)
    monkeypatch.setattr(torch_cuda, "_adapters", {(0, 0): adapter})
    with pytest.raises(AdapterError, match="on top"):
        adapter.uninstall()
    assert adapter.library.calls[-1] == ("pgmo_serve_pages", 0, 0)
