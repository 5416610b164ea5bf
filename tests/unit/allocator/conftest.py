import gc
import sys

import pytest

from pgmo.allocator.adapters import cupy as cupy_module
from pgmo.allocator.build import compile as compiling
from tests.unit import fake_cupy
from tests.unit.allocator.simulated import SimulatedAdapter


@pytest.fixture
def adapter() -> SimulatedAdapter:
    return SimulatedAdapter()


@pytest.fixture
def cupy(monkeypatch):
    """Yield a fake CuPy, and check that nothing stays allocated. The engine checks itself."""
    monkeypatch.setenv("PGMO_CHECK", "1")
    monkeypatch.setattr(cupy_module, "_adapters", {})
    made = fake_cupy.make()
    monkeypatch.setitem(sys.modules, "cupy", made)
    yield made
    gc.collect()
    made.cuda.set_allocator(None)
    made.pool.free.clear()
    assert made.runtime.living == {}  # nothing is left, arenas included


@pytest.fixture
def tiny_sources(tmp_path, monkeypatch):
    """Return the folder of a tiny adapter's sources, and use an empty cache."""
    sources = tmp_path / "csrc"
    (sources / "adapters").mkdir(parents=True)
    (sources / "engine").mkdir()
    for table in ("baseline/pgmo_baseline.h", "pages/pgmo_pages.h"):
        (sources / table).parent.mkdir()
        (sources / table).write_text("")
    (sources / "engine" / "pgmo_engine.h").write_text("#define ANSWER 42\n")
    adapter = '#include "engine/pgmo_engine.h"\nextern "C" int answer() { return ANSWER; }\n'
    (sources / "adapters" / "tiny.cpp").write_text(adapter)
    monkeypatch.setattr(compiling, "native_sources", lambda: sources)
    monkeypatch.setenv("PGMO_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("CXX", raising=False)
    return sources
