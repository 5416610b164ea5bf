"""DeepSpeed, without its kernels: a step of its engine is an iteration."""

import json
import os
import subprocess
import sys

import pytest

from tests.fakecuda.programs import ROOT

LAUNCHER = {"RANK": "0", "WORLD_SIZE": "8", "LOCAL_RANK": "0", "MASTER_ADDR": "localhost"}


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_a_step_of_the_engine_is_an_iteration(stage, tmp_path):
    pytest.importorskip("deepspeed")
    script = ROOT / "tests" / "fakecuda" / "ranks" / "deepspeed_rank.py"
    done = subprocess.run(
        [sys.executable, "-m", "pgmo", "run", "--json", "run.json", str(script), str(stage)],
        cwd=tmp_path,
        env={**os.environ, **LAUNCHER, "MASTER_PORT": "29500", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads((tmp_path / "run-rank0.json").read_text())
    (session,) = told["sessions"]
    assert session["device"] == "cuda:0"
    assert session["summary"]["iterations"] == 14
    assert session["iterations"][-1]["phase"] in ("replay", "backoff")
