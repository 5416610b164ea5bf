"""These tests need the stub CUDA runtime loaded before torch: `make test-fakecuda` does that."""

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
