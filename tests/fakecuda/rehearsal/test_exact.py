"""A rehearsal takes what the same script takes on the plain stub, to the byte."""

import json
import os
import subprocess
import sys

import pytest

import pgmo.cards
from pgmo.rehearsal.environment import of_card, of_way
from tests.fakecuda.programs import ROOT

PLAIN = """
import json, os, runpy, sys
sys.modules["triton"] = None
script, sys.argv = sys.argv[1], sys.argv[1:]
sys.path.insert(0, os.path.dirname(script))
import torch
runpy.run_path(script, run_name="__main__")
from pgmo.rehearsal import control
print(json.dumps([
    control.peak(0), torch.cuda.max_memory_reserved(), torch.cuda.max_memory_allocated()
]))
"""

NETWORK = """
import torch
from torch import nn
torch.manual_seed(0)
layers = [nn.Linear(512, 512) for _ in range(6)]
model = nn.Sequential(nn.Embedding(1000, 512), *layers, nn.Linear(512, 1000)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler()
for length in (40, 96, 17, 64, 128, 80, 33, 128):
    tokens = torch.randint(0, 1000, (8, length), device="cuda")
    with torch.autocast("cuda", torch.float16):
        scores = model(tokens)
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), tokens.flatten())
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
"""


def plain(script, *arguments, way="default", card="RTX 4090"):
    """The same on the stub that these tests run on, without anything of a rehearsal."""
    environment = {**os.environ, **of_card(pgmo.cards.find(card), 1)}
    environment |= {"PYTHONPATH": f"{ROOT / 'bench'}{os.pathsep}{ROOT}"}
    environment |= of_way(way, environment)
    done = subprocess.run(
        [sys.executable, "-c", PLAIN, str(script), *arguments],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("way", ["default", "expandable"])
def test_a_network_with_scaled_gradients(run, tmp_path, way):
    answer = run(NETWORK, way=way)
    assert answer.fits
    assert answer.iterations == 8
    found = [answer.card_peak, answer.reserved_peak, answer.allocated_peak]
    assert found == plain(tmp_path / "train.py", way=way)


@pytest.mark.parametrize("name", ["nanogpt", "mnist", "lightning_classifier"])
def test_real_programs(run, name):
    script = ROOT / "bench/programs" / f"{name}.py"
    arguments = ["--steps", "5", "--small"]
    code = f"import runpy\nrunpy.run_path({str(script)!r}, run_name='__main__')\n"
    paths = f"{ROOT / 'bench'}{os.pathsep}{ROOT}"
    answer = run(code, *arguments, environment={"PYTHONPATH": paths})
    assert answer.fits, answer.error
    found = [answer.card_peak, answer.reserved_peak, answer.allocated_peak]
    assert found == plain(script, *arguments)


def test_pgmo_takes_no_more_than_what_is_alive_and_a_page_each(run):
    ways = {way: run(NETWORK, way=way) for way in ("expandable", "pgmo")}
    assert ways["pgmo"].allocated_peak == ways["expandable"].allocated_peak
    assert ways["pgmo"].card_peak <= ways["expandable"].card_peak
