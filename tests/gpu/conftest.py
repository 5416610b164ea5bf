"""Everything here needs a CUDA device and is skipped without one."""

import gc
import warnings
from pathlib import Path

import pytest

from tests.gpu.device import make_deterministic, why_not

_HERE = Path(__file__).parent
_REASON = why_not()

if _REASON == "PyTorch is not installed":
    collect_ignore_glob = ["test_*.py"]


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.gpu)


def pytest_runtest_setup(item):
    if _REASON and item.path.is_relative_to(_HERE):
        pytest.skip(_REASON)


@pytest.fixture(autouse=True)
def clean_device():
    """The same settings for each test, and nothing left on the device after it."""
    if _REASON:
        yield
        return
    import torch

    make_deterministic()
    warnings.filterwarnings("ignore", message=".*[dD]eterministic.*")
    yield
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
