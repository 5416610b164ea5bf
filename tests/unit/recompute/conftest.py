"""Fixtures of all tests of recomputation."""

import pytest


@pytest.fixture(autouse=True, scope="session")
def measures_begin_soon(quick_collector):
    """Steps are measured in most tests."""


@pytest.fixture(autouse=True)
def captures_are_forgotten():
    """Dynamo keeps what it has captured of a function, for all models of a class."""
    yield
    torch = pytest.importorskip("torch")
    torch._dynamo.reset()
