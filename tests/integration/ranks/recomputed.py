"""Rank that compares a recomputing model under DistributedDataParallel with the plain one."""

import copy
import json
import os
import sys
import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import pgmo
from pgmo.errors import GraphError


class Network(nn.Module):
    """Residual blocks, in one graph or in several."""

    def __init__(self, breaks: bool) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32)) for _ in range(3)
        )
        self.norm, self.breaks = nn.BatchNorm1d(32), breaks

    def between(self, x: torch.Tensor) -> torch.Tensor:
        """Break the graph if `breaks` is set."""
        if self.breaks:
            torch._dynamo.graph_break()
        return x

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return a loss."""
        for block in self.blocks:
            x = self.between(x + block(x))
        return self.norm(x).square().mean()


def trained(model: nn.Module, rank: int) -> list[torch.Tensor]:
    """Return the losses and gradients of three steps with two batch sizes."""
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    found = []
    for step, rows in enumerate((16, 16, 12)):
        torch.manual_seed(10 * rank + step)
        optimizer.zero_grad()
        loss = model(torch.randn(rows, 32))
        loss.backward()
        found += [loss.detach(), *(one.grad.clone() for one in model.parameters())]
        optimizer.step()
    return found


def same(kind: str, rank: int) -> bool:
    """Return whether both models have the same bits."""
    torch.manual_seed(0)
    plain = Network(kind == "breaks")
    # A static graph counts the hooks of its first step, so the capture must precede it.
    example = [torch.randn(16, 32)] if kind == "static" else []
    ours, _ = pgmo.recompute(copy.deepcopy(plain), *example, measure=False)
    options = {"static_graph": True, "gradient_as_bucket_view": True} if kind == "static" else {}
    both = [
        trained(DistributedDataParallel(one, bucket_cap_mb=0.01, **options), rank)
        for one in (ours, plain)
    ]
    return all(map(torch.equal, *both))


def refused() -> bool:
    """Return whether a model is refused whose blocks were sharded after `pgmo.recompute`."""
    model, _ = pgmo.recompute(Network(False), measure=False)
    for block in model.blocks:
        fully_shard(block, mesh=dist.device_mesh.init_device_mesh("cpu", (2,)))
    try:
        model(torch.randn(16, 32))
    except GraphError as error:
        return "FSDPModule" in str(error)
    return False


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    number = int(os.environ["RANK"])
    where = f"file://{os.environ['MEETING']}"
    dist.init_process_group("gloo", init_method=where, rank=number, world_size=2)
    found = {one: refused() if one == "sharded" else same(one, number) for one in sys.argv[1:]}
    print(json.dumps(found))
    dist.destroy_process_group()
