"""Whole training loops under the allocators that torch brings: what they hold is what is real."""

import functools
import json
import os
import subprocess
import sys

import pytest

from tests.fakecuda.programs import ROOT

PROGRAM = """
import json, sys, torch
from workloads import LENGTHS, Shape, create
name, recompute = sys.argv[1], sys.argv[2] == "recompute"
workload = create(name, Shape(batch=4, recompute=recompute, small=True))
lengths = LENGTHS[name].draw("any", 12) if name in LENGTHS else [0] * 12
allocated = []
for length in lengths:
    workload.step(length)
    allocated.append(torch.cuda.memory_allocated())
live = [block for part in torch.cuda.memory_snapshot() for block in part["blocks"]]
print(json.dumps({
    "allocated": allocated,
    "live": torch.cuda.max_memory_allocated(),
    "requested": torch.cuda.memory_stats()["requested_bytes.all.peak"],
    "reserved": torch.cuda.max_memory_reserved(),
    "in_snapshot": sum(b["size"] for b in live if b["state"] == "active_allocated"),
    "state": sum(p.numel() * p.element_size() for p in workload.model.parameters()),
}))
"""


@functools.cache
def train(name, recompute="", configuration=""):
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT / 'bench'}{os.pathsep}{ROOT}",
        "PYTORCH_CUDA_ALLOC_CONF": configuration,
    }
    command = [sys.executable, "-c", PROGRAM, name, recompute]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", ["gpt", "resnet", "unet", "seq2seq"])
def test_a_network_trains(name):
    figures = train(name)
    assert figures["state"] < figures["live"] <= figures["reserved"]
    assert figures["in_snapshot"] == figures["allocated"][-1]
    # Nothing piles up from iteration to iteration; the gradients are there from the first one on.
    assert len(set(figures["allocated"][1:])) == 1


def test_figures_are_the_same_each_time():
    assert train.__wrapped__("gpt") == train("gpt")


def test_recomputation_needs_less():
    assert train("gpt", "recompute")["live"] < train("gpt")["live"]


def test_expandable_segments_hold_the_same_blocks():
    plain, expandable = train("gpt"), train("gpt", configuration="expandable_segments:True")
    assert plain["requested"] == expandable["requested"]
    assert plain["reserved"] != expandable["reserved"]
