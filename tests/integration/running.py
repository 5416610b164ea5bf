"""Runs of scripts in child processes, with and without `pgmo run`."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pgmo
from tests import forked
from tests.same_bits import ONE_THREAD, assert_same_bits

SCRIPTS = Path(__file__).parent / "scripts"
RESULT = re.compile(r"^(\w+ )?-?0x[0-9a-f.]+p[+-]\d+$|^[0-9a-f]{64}$")

# A loop of nine iterations in a script that changes its directory first.
MOVING = """
import os, tempfile, torch
os.chdir(tempfile.mkdtemp(dir=os.getcwd()))
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(9):
    optimizer.zero_grad()
    model(torch.randn(4, 8)).sum().backward()
    optimizer.step()
"""


def run(folder, *command, check=True, fresh=False, environment=None):
    """Run Python in a folder.

    Unless `fresh` is set, the process is forked from one in which torch is imported already.
    """
    root = str(Path(pgmo.__file__).parents[1])
    own = {"CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": root, **ONE_THREAD}
    environment = {**os.environ, **own, **(environment or {})}
    command = list(map(str, command))
    if fresh:
        python = [sys.executable, *command]
        done = subprocess.run(
            python, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
    else:
        ended = forked.run_command(folder, *command, environment=environment)
        done = subprocess.CompletedProcess(command, ended.exit_code, ended.output, ended.errors)
    assert not check or done.returncode == 0, done.stderr
    return done


def results(done):
    """Return the lines with losses and with the digest of the final weights."""
    return [line for line in done.stdout.splitlines() if RESULT.match(line)]


def plainly_and_under_pgmo(folder, script, *arguments, options=(), fresh=False):
    """Run a script with and without `pgmo run`, compare, and return its session from `--json`."""
    plain = run(folder, SCRIPTS / script, *arguments)
    command = ("-m", "pgmo", "run", "--json", "run.json", *options, SCRIPTS / script, *arguments)
    served = run(folder, *command, fresh=fresh)
    assert len(results(plain)) > 1
    assert_same_bits(
        results(plain), results(served), lambda: results(run(folder, SCRIPTS / script, *arguments))
    )
    fields = json.loads((folder / "run.json").read_text())
    assert fields["exit_code"] == 0
    assert fields["notes"] == []
    (session,) = fields["sessions"]
    assert session["device"] == "cpu"
    return session


def hit_rates(session, last):
    iterations = session["iterations"][-last:]
    assert [one["phase"] for one in iterations] == ["replay"] * last
    return [one["hits"] / one["requests"] for one in iterations]
