"""Fixture `cupy`, which the subject for CuPy needs."""

from tests.unit.allocator.conftest import cupy  # noqa: F401
