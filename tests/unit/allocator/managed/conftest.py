import pytest

from pgmo.allocator.adapters import managed_hints
from tests.unit.allocator.conftest import cupy
from tests.unit.allocator.managed.driver import Driver

__all__ = ["cupy", "driver"]


@pytest.fixture
def driver(monkeypatch):
    """Return the fake driver that receives hints."""
    made = Driver()
    monkeypatch.setattr(managed_hints, "driver", lambda: made)
    return made
