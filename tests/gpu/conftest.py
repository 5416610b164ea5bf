"""Settings for tests that need a CUDA device, and are skipped without one."""

import gc
import warnings
from pathlib import Path

import pytest

from pgmo.allocator import heuristics
from tests.gpu.device import make_deterministic, why_not

_HERE = Path(__file__).parent
_REASON = why_not()

_ON_THEIR_OWN = ("test_adapters.py", "test_cupy.py", "test_cupy_and_torch.py")
"""Files that check by themselves for what they need, as CuPy does not need PyTorch."""

if _REASON == "PyTorch is not installed":
    collect_ignore = [
        path.name for path in _HERE.glob("test_*.py") if path.name not in _ON_THEIR_OWN
    ]


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.gpu)


def pytest_runtest_setup(item):
    here = item.path.is_relative_to(_HERE) and item.path.name not in _ON_THEIR_OWN
    if _REASON and here:
        pytest.skip(_REASON)


@pytest.fixture(autouse=True)
def clean_device():
    """Set the same settings for each test, and empty the device's cache after it."""
    if _REASON:
        yield
        return
    import torch

    from tests.gpu.running import plan_at_once

    plan_at_once()
    make_deterministic()
    warnings.filterwarnings("ignore", message=".*[dD]eterministic.*")
    yield
    heuristics.use(heuristics.Heuristics())
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
