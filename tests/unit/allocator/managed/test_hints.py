"""What the driver is told."""

import importlib

import pytest

from pgmo.allocator.adapters import managed_hints as under_test
from pgmo.allocator.adapters.managed_hints import Hints, require_bindings
from pgmo.errors import AdapterError


@pytest.mark.parametrize("version", [12, 13])
def test_what_is_told_is_the_same_in_both_versions(driver, version):
    _, told = driver(version)
    hints = Hints(1)
    hints.keep_on_device(4096, 512)
    hints.keep_on_host(8192, 1024)
    hints.prefetch(4096, 512, to_device=True)
    hints.prefetch(8192, 1024, to_device=False)
    assert told == [
        ("prefer", 4096, 512, "device 1"),
        ("prefer", 8192, 1024, "host"),
        ("read by", 8192, 1024, "device 1"),
        ("prefetch", 4096, 512, "device 1"),
        ("prefetch", 8192, 1024, "host"),
    ]
    assert hints.note == ""
    require_bindings()


def test_the_first_refusal_ends_them(driver):
    module, told = driver()
    hints = Hints(0)
    module.result = type(module.result).CUDA_ERROR_INVALID_VALUE
    hints.prefetch(4096, 512, to_device=True)
    assert hints.note == (
        "unified memory is no longer advised or prefetched: cuMemPrefetchAsync failed with "
        "CUDA_ERROR_INVALID_VALUE"
    )
    hints.keep_on_device(4096, 512)
    assert len(told) == 1


def test_a_function_that_the_driver_lacks_ends_them(driver):
    module, _ = driver()

    def missing(*_):
        raise RuntimeError("function cuMemAdvise is not found")

    module.cuMemAdvise = missing
    hints = Hints(0)
    hints.keep_on_host(4096, 512)
    assert hints.note.endswith("cuMemAdvise: function cuMemAdvise is not found")


def test_without_the_bindings_nothing_is_told(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    hints = Hints(0)
    hints.keep_on_device(4096, 512)
    hints.keep_on_host(4096, 512)
    hints.prefetch(4096, 512, to_device=True)
    assert hints.note == under_test.MISSING
    with pytest.raises(AdapterError, match="pip install cuda-bindings"):
        require_bindings()


def test_bindings_that_know_no_locations_are_too_old(driver):
    module, _ = driver()
    del module.CUmemLocation
    assert "12.9 or later" in Hints(0).note
