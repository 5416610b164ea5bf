"""Compilation of the adapter for CUDA against the installed PyTorch."""

from types import SimpleNamespace

from pgmo.allocator.adapters.torch_source import pybind_abi


def test_the_module_is_compiled_as_torchs_own_was():
    old = SimpleNamespace(
        _PYBIND11_COMPILER_TYPE="_gcc", _PYBIND11_STDLIB=None, _PYBIND11_BUILD_ABI="_cxxabi1011"
    )
    assert pybind_abi(old) == [
        '-DPYBIND11_COMPILER_TYPE="_gcc"',
        '-DPYBIND11_BUILD_ABI="_cxxabi1011"',
    ]
    assert pybind_abi(SimpleNamespace()) == []
