"""Worlds of the adapters that need no GPU, for test_adapters.py."""

import pytest

from tests.adapters.conftest import (  # noqa: F401
    framework,
    framework_of,
    libraries,
    new_world,
    world,
)
from tests.unit.allocator.conftest import cupy  # noqa: F401

pytest.register_assert_rewrite("tests.conformance.adapter_suite", "tests.conformance.subjects")
