"""Tests of `python -m pgmo run` in each rank of an unchanged script.

The guide on several processes starts the same command by torchrun.
"""

import re
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.integration.ranks.launch import launch

SCRIPT = """
import os, sys, time, torch, torch.distributed as dist
meeting = f"file://{os.environ['MEETING']}"
rank, world = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE"))
dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=world)
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
"""Script that waits 1 s at its end, because gloo's threads keep Python objects for a moment.

If the interpreter ended before, the process would be aborted, with and without pgmo.
"""


def losses(folder: Path, meeting: str, *command: str) -> tuple[list[str], str]:
    """Return the losses of two processes, and their error output."""
    ended = launch(folder, *command, MEETING=str(folder / meeting))
    for one in ended:
        assert one.exit_code == 0, one.errors
    said = "".join(one.errors for one in ended)
    return [re.search(r"rank \d loss \S+", one.output)[0] for one in ended], said


def test_ranks_share_a_directory_and_the_next_job_begins_there(tmp_path: Path) -> None:
    script, plans = tmp_path / "train.py", tmp_path / "plans"
    script.write_text(SCRIPT)
    without, _ = losses(tmp_path, "plain", str(script))
    assert len(without) == 2
    command = ("pgmo", "run", "--plan", str(plans), "--save", str(plans), str(script))
    with_pgmo, said = losses(tmp_path, "first", *command)
    assert with_pgmo == without
    assert said.count("12 iterations, 5 recorded") == 1  # only by the first rank
    (plan,) = plans.glob("*.pgmoplan")
    assert re.search(rf"Wrote \S*{re.escape(plan.name)}", said)
    with_pgmo, said = losses(tmp_path, "second", *command)
    assert with_pgmo == without
    assert "12 iterations, 0 recorded, 12 replayed" in said
    assert f"began with {plan.name}, the plan of rank 0 of 2" in said
