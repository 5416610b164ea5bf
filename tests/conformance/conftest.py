"""Worlds of the adapters that need no GPU, for test_adapters.py."""

from tests.adapters.conftest import (  # noqa: F401
    adapter,
    adapter_of,
    libraries,
    new_world,
    world,
)
from tests.unit.allocator.conftest import cupy  # noqa: F401
