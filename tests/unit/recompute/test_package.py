import subprocess
import sys

import pytest

import pgmo


def test_the_package_is_a_function_with_names():
    pytest.importorskip("torch")
    assert callable(pgmo.recompute)
    assert pgmo.recompute is sys.modules["pgmo.recompute"]
    assert {"backend", "largest"} <= set(dir(pgmo.recompute))
    assert pgmo.recompute.largest.__module__ == "pgmo.recompute.largest_batch"
    with pytest.raises(AttributeError, match=r"segments'; it was removed: put torch"):
        _ = pgmo.recompute.segments
    with pytest.raises(AttributeError, match=r"'pgmo.recompute' has no attribute 'remember'"):
        _ = pgmo.recompute.remember


def test_planning_needs_no_torch():
    code = "import pgmo.recompute.planners.planning, sys; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
