"""Imports of benchmarks, whose modules other tests must not find."""

import sys

import pytest

from tests.bench.scripts import BENCH


@pytest.fixture(autouse=True)
def _bench_modules(monkeypatch):
    """Make the modules of bench/ importable, and forget them after the test."""
    known = set(sys.modules)
    monkeypatch.syspath_prepend(str(BENCH))
    yield
    for name in set(sys.modules) - known:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(f"{BENCH}/"):
            del sys.modules[name]
