"""What fake tensors say of a step is what the real allocator gives it."""

import json
import os
import subprocess

import pytest

from tests.fakecuda.fit.record_blocks import RECORDED
from tests.fakecuda.programs import CPU_PYTHON, ROOT, run_program

STEPS = """
import torch
from torch import nn

torch.backends.cudnn.enabled = False
torch.backends.cuda.enable_cudnn_sdp(False)


def encoder():
    layer = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True)
    return nn.Sequential(nn.Embedding(4000, 256), nn.TransformerEncoder(layer, 3)), lambda: (
        torch.randint(0, 4000, (8, 300), device="cuda")
    )


def convolutions():
    net = nn.Sequential(
        nn.Conv2d(3, 64, 3, padding=1), nn.BatchNorm2d(64), nn.SiLU(),
        nn.Conv2d(64, 64, 3, padding=1, groups=64), nn.GroupNorm(8, 64), nn.ReLU(),
        nn.Conv2d(64, 128, 1), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128 * 32 * 32, 10),
    )
    return net, lambda: torch.randn(16, 3, 64, 64, device="cuda")


def build(make):
    net, batch = make()
    net.to("cuda")
    optimizer = torch.optim.AdamW(net.parameters())

    def step():
        net(batch()).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step
"""

MEASURED = """
step = build({make})
for _ in range(3):
    step()
print('[%d, %d]' % (torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()))
"""

ESTIMATED = """
from pgmo.fit.estimate import estimate

need = estimate(lambda: build({make}), card="H100").need
print([need.allocated_peak, need.reserved["default"]])
"""


def estimated(make):
    environment = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    done = subprocess.run(
        [CPU_PYTHON, "-c", STEPS + ESTIMATED.format(make=make)],
        env=environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.skipif(not CPU_PYTHON.exists(), reason="needs an environment with a CPU torch")
@pytest.mark.parametrize("make", ["encoder", "convolutions"])
def test_peaks(make):
    allocated, reserved = run_program(STEPS + MEASURED.format(make=make))
    found_allocated, found_reserved = estimated(make)
    assert found_allocated == pytest.approx(allocated, rel=0.01)
    assert found_reserved == pytest.approx(reserved, rel=0.03)


def test_the_record_is_what_operators_take():
    """Of this version of PyTorch: another one may take something else."""
    torch = pytest.importorskip("torch")
    recorded = json.loads(RECORDED.read_text())
    if torch.__version__.split("+")[0] != recorded["torch"].split("+")[0]:
        pytest.skip(f"recorded with {recorded['torch']}")
    code = (
        "import json\n"
        "from tests.fakecuda.fit.record_blocks import CASES, blocks_of, prepare\n"
        "prepare()\n"
        "print(json.dumps({name: blocks_of(case) for name, case in CASES.items()}))\n"
    )
    assert run_program(code, PYTHONPATH=str(ROOT)) == recorded["blocks"]
