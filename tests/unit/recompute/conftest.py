"""What holds for all tests of recomputation."""

import pytest


@pytest.fixture(autouse=True, scope="session")
def measures_begin_soon(quick_collector):
    """Steps are measured in most tests."""
