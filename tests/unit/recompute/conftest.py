"""Fixtures for all tests of recomputation. Without PyTorch, only the planners are tested."""

import sys
from importlib.util import find_spec

import pytest

_NEED_TORCH = ["capture", "compiled", "runtime", "test_apply.py", "test_largest_batch.py"]
_NEED_TORCH += ["test_outcome.py", "test_card_budget.py"]

collect_ignore = [] if find_spec("torch") else _NEED_TORCH


@pytest.fixture(autouse=True)
def captures_are_forgotten():
    """Reset Dynamo after each test, as it keeps captures for all models of a class."""
    yield
    if "torch._dynamo" in sys.modules:
        sys.modules["torch._dynamo"].reset()
