"""Many threads at once."""

import os
import re
import subprocess
import sys

from tests.adapters.attack import REQUESTS, THREADS
from tests.adapters.build import ROOT


def test_nobody_gets_memory_that_somebody_else_has(libraries):
    """Neither by the engine's own map of living blocks nor by the bytes in them."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.adapters.attack", str(libraries["sound"])],
        cwd=ROOT,
        env={**os.environ, "PGMO_CHECK": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    found = re.fullmatch(
        r"(\d+) requests, (\d+) hits, 0 changed, 0 living, 0 events, 0 complaints\n", ended.stdout
    )
    assert found is not None, ended.stdout
    assert int(found[1]) == THREADS * REQUESTS
    assert int(found[2]) > 100  # or it was no test of slots
