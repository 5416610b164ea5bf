"""`torchrun -m pgmo run`: scripts that know nothing of pgmo, in several processes."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch

SCRIPT = """
import sys, time, torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(0)
network = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 4))
model = torch.nn.parallel.DistributedDataParallel(network)
optimizer = torch.optim.AdamW(model.parameters())
data = torch.Generator().manual_seed(dist.get_rank())
for _ in range(12):
    loss = model(torch.randn(32, 64, generator=data)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
sys.stdout.write(f"rank {dist.get_rank()} loss {loss.item()!r}\\n")
dist.destroy_process_group()
time.sleep(1)
"""
"""It waits, as gloo's threads hold on to objects of Python's for a moment, which aborts the process
when the interpreter ends before: with and without pgmo, three times in eight on a busy machine."""


def torchrun(folder: Path, *command: str) -> tuple[list[str], str]:
    """The losses of two processes, and what was said."""
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    done = subprocess.run(
        [sys.executable, *launcher, *command],
        cwd=folder,
        env={
            **os.environ,
            "PGMO_CHECK": "1",
            "GLOO_SOCKET_IFNAME": "lo",
            "PYTHONPATH": str(Path(__file__).resolve().parents[3]),
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return sorted(re.findall(r"rank \d loss \S+", done.stdout)), done.stderr


@pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="this torch has no gloo")
def test_ranks_share_a_directory_and_the_next_job_begins_there(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    without, _ = torchrun(tmp_path, "train.py")
    assert len(without) == 2
    command = ("-m", "pgmo", "run", "--plan", "plans", "--save", "plans", "train.py")
    losses, said = torchrun(tmp_path, *command)
    assert losses == without
    assert said.count("12 iterations, 5 recorded") == 1  # by the first rank alone
    (plan,) = (tmp_path / "plans").glob("*.pgmoplan")
    assert f"Wrote plans/{plan.name}" in said
    losses, said = torchrun(tmp_path, *command)
    assert losses == without
    assert "12 iterations, 0 recorded, 12 replayed" in said
    assert f"began with {plan.name}, the plan of rank 0 of 2" in said
