import gc
import sys

import pytest

from pgmo.allocator import cupy as adapter
from tests.unit import fake_cupy
from tests.unit.allocator.simulated import SimulatedFramework


@pytest.fixture
def framework() -> SimulatedFramework:
    return SimulatedFramework()


@pytest.fixture
def cupy(monkeypatch):
    """CuPy with its driver replaced; the engine checks itself."""
    monkeypatch.setenv("PGMO_CHECK", "1")
    monkeypatch.setattr(adapter, "_frameworks", {})
    made = fake_cupy.make()
    monkeypatch.setitem(sys.modules, "cupy", made)
    yield made
    gc.collect()
    made.cuda.set_allocator(None)
    made.pool.free.clear()
    assert made.runtime.living == {}  # nothing is left, arenas included
