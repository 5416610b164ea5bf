"""Fixtures for all tests of recomputation."""

import pytest


@pytest.fixture(autouse=True, scope="session")
def measures_begin_soon(quick_collector):
    """Let measurements begin soon, by a quick garbage collector, as most tests measure steps."""


@pytest.fixture(autouse=True)
def captures_are_forgotten():
    """Reset Dynamo after each test, as it keeps captures for all models of a class."""
    yield
    torch = pytest.importorskip("torch")
    torch._dynamo.reset()
