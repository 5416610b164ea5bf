"""The callbacks of Lightning and transformers plan under FSDP."""

import json
import os
import subprocess
import sys

import pytest

from tests.fakecuda.programs import ROOT

LAUNCHER = {
    "RANK": "0",
    "WORLD_SIZE": "8",
    "LOCAL_RANK": "0",
    "LOCAL_WORLD_SIZE": "1",
    "GROUP_RANK": "0",
    "NODE_RANK": "0",
    "TORCHELASTIC_RUN_ID": "job",
    "MASTER_ADDR": "localhost",
    "MASTER_PORT": "29500",
}


@pytest.mark.parametrize(
    "kind", ["lightning", pytest.param("fsdp1", marks=pytest.mark.slow), "fsdp2"]
)
def test_fsdp_is_served(kind):
    pytest.importorskip("lightning" if kind == "lightning" else "transformers")
    further = {} if kind == "lightning" else {"ACCELERATE_USE_FSDP": "true"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.fakecuda.ranks.callbacks", kind],
        cwd=ROOT,
        env={**os.environ, **LAUNCHER, **further, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout.splitlines()[-1])
    assert counts["device"] == "cuda:0"
    assert counts["iterations"] == 14
    assert set(counts["phases"]) <= {"record", "backoff", "replay"}
