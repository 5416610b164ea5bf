"""A rehearsal takes as many bytes as the same script on the plain stub."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import pgmo.cards
from pgmo.rehearsal.environment import of_card, of_compilers, of_way
from tests.fakecuda.programs import ROOT, run_command

PLAIN = """
import json, os, runpy, sys
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


def assert_same_as_plain(answer, script, *arguments, way="default"):
    """Assert that a rehearsal takes as much as the script on the stub without a rehearsal."""
    environment = {**os.environ, **of_card(pgmo.cards.find("RTX 4090"), 1)}
    environment |= {"PYTHONPATH": f"{ROOT / 'bench'}{os.pathsep}{ROOT}"}
    environment |= of_way(way, environment)
    with TemporaryDirectory() as folder:
        environment |= of_compilers(Path(folder), Path(os.environ["PGMO_FAKECUDA"]))
        Path(folder, "plain.py").write_text(PLAIN)
        plain = run_command(Path(folder), "plain.py", str(script), *arguments, **environment)
    assert answer.fits, answer.error
    assert [answer.card_peak, answer.reserved_peak, answer.allocated_peak] == plain


def test_a_network_with_scaled_gradients(run, tmp_path):
    ways = {way: run(NETWORK, way=way) for way in ("default", "expandable", "pgmo")}
    for way in ("default", "expandable"):
        assert ways[way].iterations == 8
        assert_same_as_plain(ways[way], tmp_path / "train.py", way=way)
    assert ways["pgmo"].allocated_peak == ways["expandable"].allocated_peak
    assert ways["pgmo"].card_peak <= ways["expandable"].card_peak


PROJECTION = """
import torch
from torch import nn

layer = nn.Linear(64, 4096).cuda()
inputs = torch.randn(32, 128, 64, device="cuda").transpose(0, 1)
for _ in range(2):
    layer(inputs).mean().backward()
"""


def test_a_linear_layer_whose_input_is_not_contiguous_adds_its_bias_in_place(run, tmp_path):
    assert_same_as_plain(run(PROJECTION), tmp_path / "train.py")


COMPILED = """
import sys, torch
from torch import nn
mode, dynamic = sys.argv[1:]
model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.LayerNorm(256), nn.Linear(256, 8)).cuda()
forward = torch.compile(model, mode=mode, dynamic=dynamic == "dynamic")
optimizer = torch.optim.AdamW(model.parameters())
for rows in (512, 512, 512, 256, 512):
    scores = forward(torch.randn(rows, 64, device="cuda"))
    loss = nn.functional.cross_entropy(scores, torch.randint(0, 8, (rows,), device="cuda"))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    assert 0 < loss.item() < 9
"""


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("default", "fixed"), ("reduce-overhead", "dynamic")])
def test_compiled_code(run, tmp_path, arguments):
    answer = run(COMPILED, *arguments)
    assert not any("torch.compile" in note for note in answer.notes)
    script = tmp_path / "train.py"
    script.write_text(COMPILED.replace("assert", "loss.item()  # garbage here: "))
    assert_same_as_plain(answer, script, *arguments)


@pytest.mark.slow
def test_compiled_code_takes_other_memory_than_operators_one_by_one(run):
    compiled = run(COMPILED, "default", "fixed")
    plainly = run(COMPILED, "default", "fixed", environment={"TORCHDYNAMO_DISABLE": "1"})
    assert compiled.allocated_peak != plainly.allocated_peak


KERNEL = """
import torch, triton
import triton.language as tl

@triton.autotune([triton.Config({"WIDE": 128}), triton.Config({"WIDE": 256})], key=["count"])
@triton.jit
def double(source, target, count, WIDE: tl.constexpr):
    at = tl.program_id(0) * WIDE + tl.arange(0, WIDE)
    tl.store(target + at, 2 * tl.load(source + at, mask=at < count), mask=at < count)

source = torch.ones(1 << 20, device="cuda")
target = torch.empty_like(source)
double[lambda found: (triton.cdiv(1 << 20, found["WIDE"]),)](source, target, 1 << 20)
assert 0 < target.mean().item() < 9
output.write(str(torch.cuda.memory_allocated()))
"""


@pytest.mark.slow
def test_a_kernel_of_the_script_is_launched(output_of):
    assert int(output_of(KERNEL)) == 2 << 22


@pytest.mark.parametrize(
    "name",
    [
        "nanogpt",
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("mnist", "lightning_classifier")),
    ],
)
def test_real_programs(run, name):
    script = ROOT / "bench/programs" / f"{name}.py"
    arguments = ["--steps", "5", "--small"]
    code = f"import runpy\nrunpy.run_path({str(script)!r}, run_name='__main__')\n"
    paths = f"{ROOT / 'bench'}{os.pathsep}{ROOT}"
    answer = run(code, *arguments, environment={"PYTHONPATH": paths})
    assert_same_as_plain(answer, script, *arguments)
