"""The command `pgmo fit`, and runs that continue with the next plan."""

import os
import subprocess
import sys
from pathlib import Path

from pgmo.rehearsal.environment import of_card
from tests.fakecuda.fit.scripts import card, write


def pgmo(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder."""
    return subprocess.run(
        [sys.executable, "-m", "pgmo", *words],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_its_exit_code_says_whether_it_fits(tmp_path: Path) -> None:
    script = write(tmp_path)
    done = pgmo(tmp_path, "fit", "--card", f"{card(60).usable >> 20}MiB", script)
    assert done.returncode == 4, done.stderr
    assert done.stdout.startswith("train.py does not fit on ")
    wrong = pgmo(tmp_path, "fit", "--card", "RTX 4091", script)
    assert wrong.returncode == 2
    assert "RTX 4090" in wrong.stderr


def test_a_run_goes_on_with_smaller_micro_batches(tmp_path: Path) -> None:
    script = write(tmp_path)
    options = ("--fit", "--vary", "--batch-size {}", "--accumulate", "--accumulate {}", "-q")
    small = of_card(card(260), 1)
    done = pgmo(tmp_path, "run", *options, script, "--batch-size", "32", **small)
    assert done.returncode == 0, done.stderr
    batch, steps = map(int, done.stdout.split()[-2:])
    assert batch * steps == 32
    assert batch < 32
    assert f"starting with micro-batches of {batch} instead of 32" in done.stderr
    assert "memory ran out" not in done.stderr


def test_a_run_that_has_no_smaller_batch_recomputes(tmp_path: Path) -> None:
    script = write(tmp_path)
    batch = ("--batch-size", "12")
    small = of_card(card(232), 1)
    done = pgmo(tmp_path, "run", "--fit", "-q", script, *batch, **small)
    assert done.returncode == 0, done.stderr
    assert "starting with recomputed activations within" in done.stderr
    assert "memory ran out" not in done.stderr
    assert "trained at 12 1" in done.stdout
