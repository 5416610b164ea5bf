import pytest

from tests.unit.allocator.simulated import SimulatedFramework


@pytest.fixture
def framework() -> SimulatedFramework:
    return SimulatedFramework()
