import importlib

import pytest

from tests.unit.allocator.conftest import cupy
from tests.unit.allocator.managed import driver as fake

__all__ = ["cupy", "driver"]


@pytest.fixture
def driver(monkeypatch):
    """The module and what it was told; `driver(12)` is that of an older version."""

    def use(version=13):
        module, told = fake.make(version)
        real = importlib.import_module
        monkeypatch.setattr(
            importlib,
            "import_module",
            lambda name: module if name == "cuda.bindings.driver" else real(name),
        )
        return module, told

    return use
