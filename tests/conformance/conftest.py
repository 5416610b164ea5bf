"""The fixture that CuPy's subject needs, for test_adapters.py."""

from tests.unit.allocator.conftest import cupy  # noqa: F401
