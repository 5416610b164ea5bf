"""Tests that need the stub CUDA runtime loaded before torch, as by `make test-fakecuda`."""

import ctypes
import os
from pathlib import Path

import pytest

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items):
    if "PGMO_FAKECUDA" in os.environ:
        return
    skip = pytest.mark.skip(reason="needs the stub CUDA runtime: run `make test-fakecuda`")
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(skip)


@pytest.fixture(autouse=True)
def no_error_is_left():
    """Clear the error of a refused call, which PyTorch would find at its next call."""
    yield
    if "PGMO_FAKECUDA" in os.environ:
        ctypes.CDLL(os.environ["PGMO_FAKECUDA"]).cudaGetLastError()
