"""Fixtures for all tests of recomputation."""

import pytest


@pytest.fixture(autouse=True)
def captures_are_forgotten():
    """Reset Dynamo after each test, as it keeps captures for all models of a class."""
    yield
    torch = pytest.importorskip("torch")
    torch._dynamo.reset()
