"""`pgmo run` with the CUDA build of PyTorch: its device, and its files if memory runs out."""

import json
import os
from pathlib import Path

import pytest

import pgmo
from tests import forked

SCRIPT = """
import sys, torch
from torch import nn

failing, history = int(sys.argv[1]), sys.argv[2:] == ["history"]
if history:
    torch.cuda.memory._record_memory_history()
model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for step in range(14):
    inputs = torch.randn(256, 512, device="cuda")
    optimizer.zero_grad()
    outputs = model(inputs)
    if step == failing:
        torch.empty(1 << 45, dtype=torch.uint8, device="cuda")
    outputs.square().mean().backward()
    optimizer.step()
"""


HISTORY = """
import torch

torch.cuda.memory._record_memory_history(stacks="python")
kept = torch.empty(3 << 18, device="cuda")
events = torch.cuda.memory._snapshot()["device_traces"][0]
print([event["size"] >> 20 for event in events if event["action"] == "alloc"])
"""

TWO_DEVICES = """
import sys, pgmo, torch
from torch import nn

def make(device):
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64)).to(device)
    return model, torch.optim.AdamW(model.parameters())

def train(model, optimizer):
    optimizer.zero_grad()
    device = next(model.parameters()).device
    model(torch.randn(64, 64, device=device)).square().mean().backward()
    optimizer.step()

own, other = sys.argv[1:]
trained = make(other)
with pgmo.optimize(device=own) as session:
    with torch.no_grad():
        helper = nn.Linear(64, 64).to(own)
    for _ in range(14):
        train(*trained)
        with torch.no_grad():
            helper(torch.randn(64, 64, device=own)).relu().sum()
        session.step()
print(session.device, session.history[-1].phase)
"""


def run(folder, *arguments, script=SCRIPT):
    (folder / "train.py").write_text(script)
    command = ("-m", "pgmo", "run", "--json", "run.json", "train.py", *arguments)
    ended = forked.run_command(folder, *command, environment=os.environ)
    return ended, json.loads((folder / "run.json").read_text())


def test_the_device_is_the_one_that_is_trained_on(tmp_path):
    ended, fields = run(tmp_path, "-1")
    assert ended.exit_code == 0
    assert fields["notes"] == []
    (session,) = fields["sessions"]
    assert session["device"] == "cuda:0"
    for one in session["iterations"][-6:]:
        assert one["phase"] == "replay"
        assert one["hits"] == one["requests"]


@pytest.mark.parametrize("failing", [2, 10])
def test_out_of_memory_keeps_what_is_known(tmp_path, failing):
    ended, fields = run(tmp_path, str(failing))
    assert ended.exit_code == 1
    assert "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate" in ended.errors
    kept = [Path(one).suffix for one in fields["out_of_memory"]]
    assert kept == [".pgmoprof", ".txt"]
    profile = pgmo.Profile.load(tmp_path / fields["out_of_memory"][0])
    assert profile.circular == (failing == 10)
    assert profile.meta.device == "cuda:0"


def test_out_of_memory_saves_pytorchs_history_where_there_is_one(tmp_path):
    ended, fields = run(tmp_path, "2", "history")
    assert ended.exit_code == 1
    assert [Path(one).suffix for one in fields["out_of_memory"]] == [".pickle", ".pgmoprof", ".txt"]
    assert (tmp_path / fields["out_of_memory"][0]).stat().st_size > 0


def test_a_history_that_begins_before_cuda_has_what_pages_serve(tmp_path):
    ended, _ = run(tmp_path, script=HISTORY)
    assert (ended.exit_code, ended.output) == (0, "[3]\n")


@pytest.mark.parametrize(("own", "other"), [("cpu", "cuda:0"), ("cuda:0", "cpu")])
def test_a_session_of_the_scripts_leaves_the_other_device_served(tmp_path, own, other):
    ended, fields = run(tmp_path, own, other, script=TWO_DEVICES)
    assert ended.exit_code == 0
    assert ended.output == f"{own} replay\n"
    assert fields["notes"] == []
    (session,) = fields["sessions"]
    assert session["device"] == other
    assert [one["phase"] for one in session["iterations"][-3:]] == ["replay"] * 3
