"""PyTorch's engines for training on several ranks, with a small network.

Each function takes a device and returns an `Engine`.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

WIDTH = int(os.environ.get("ENGINES_WIDTH", "64"))
ROWS = int(os.environ.get("ENGINES_ROWS", "32"))


@dataclass
class Engine:
    """Functions of a loop.

    Args:
        step: trains on a batch, and returns the loss.
        weights: yields the weights of this rank.
    """

    step: Callable[[torch.Tensor], torch.Tensor]
    weights: Callable[[], Iterator[torch.Tensor]]


def network(device: str) -> nn.Sequential:
    """Return a network of four blocks, with the same weights on all ranks."""
    torch.manual_seed(0)
    blocks = [
        nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
        for _ in range(4)
    ]
    return nn.Sequential(*blocks).to(device)


def _trained(model: nn.Module, optimizer: torch.optim.Optimizer) -> Engine:
    def step(batch: torch.Tensor) -> torch.Tensor:
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return Engine(step, lambda: map(_local, model.parameters()))


def _local(parameter: Any) -> torch.Tensor:
    return (parameter.to_local() if hasattr(parameter, "to_local") else parameter).detach()


def _adamw(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=1e-3)


def ddp(device: str, **options: Any) -> Engine:
    """Train with DistributedDataParallel and several buckets."""
    model = _reduced(network(device), **options)
    return _trained(model, _adamw(model))


def _reduced(module: nn.Module, **options: Any) -> nn.Module:
    model = nn.parallel.DistributedDataParallel(module, bucket_cap_mb=1, **options)
    if dist.get_backend() == "fake":
        # Fake collectives return None, which the reducer of PyTorch 2.11 does not expect.
        model.register_comm_hook(None, _unreduced)
    return model


def _unreduced(_state: None, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


def ddp_views(device: str) -> Engine:
    """Train with DDP, a static graph, and gradients as views of buckets."""
    return ddp(device, static_graph=True, gradient_as_bucket_view=True)


def fsdp1(device: str) -> Engine:
    """Train with FullyShardedDataParallel."""
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    policy = ModuleWrapPolicy({nn.Sequential})
    here = torch.device(device)
    model = FullyShardedDataParallel(network(device), auto_wrap_policy=policy, device_id=here)
    return _trained(model, _adamw(model))


def fsdp2(
    device: str, *, reshard: bool = True, half: bool = False, checkpoint: bool = False, **more: Any
) -> Engine:
    """Train with `fully_shard` for each block and for the whole network."""
    from torch.distributed._composable import checkpoint as recomputed
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    model = network(device)
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if half else MixedPrecisionPolicy()
    mesh = init_device_mesh(device, (dist.get_world_size(),))
    for block in model:
        if checkpoint:
            recomputed(block)
        fully_shard(block, mesh=mesh, reshard_after_forward=reshard, mp_policy=policy, **more)
    fully_shard(model, mesh=mesh, reshard_after_forward=reshard, mp_policy=policy, **more)
    return _trained(model, _adamw(model))


def fsdp2_kept(device: str) -> Engine:
    """Train with FSDP2, and keep gathered parameters until the backward pass."""
    return fsdp2(device, reshard=False)


def fsdp2_half(device: str) -> Engine:
    """Train with FSDP2, bfloat16 parameters, float32 sums of gradients, and checkpoints."""
    return fsdp2(device, half=True, checkpoint=True)


def fsdp2_offloaded(device: str) -> Engine:
    """Train with FSDP2 and shards in the memory of the host."""
    from torch.distributed.fsdp import CPUOffloadPolicy

    return fsdp2(device, offload_policy=CPUOffloadPolicy(pin_memory=device == "cuda"))


def tensor_parallel(device: str, *, sequence: bool = False) -> Engine:
    """Train with the columns and rows of each block's matrices divided among the ranks."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    model = network(device)
    mesh = init_device_mesh(device, (dist.get_world_size(),))
    between = Shard(0) if sequence else Replicate()
    for block in model:
        columns = ColwiseParallel(input_layouts=between)
        rows = RowwiseParallel(output_layouts=between)
        parallelize_module(block, mesh, {"0": columns, "2": rows})
    return _trained(model, torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False))


def sequence_parallel(device: str) -> Engine:
    """Train with tensor parallelism, and activations divided among the ranks between blocks."""
    return tensor_parallel(device, sequence=True)


def pipeline(device: str) -> Engine:
    """Train a pipeline of one stage for each rank, with schedule 1F1B and four micro-batches."""
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    rank, world = dist.get_rank(), dist.get_world_size()
    blocks = network(device)
    own = nn.Sequential(*blocks[rank * len(blocks) // world : (rank + 1) * len(blocks) // world])
    examples = {}
    if dist.get_backend() == "fake":  # no rank would send the shapes to a stage
        part = torch.empty(ROWS // 4, WIDTH, device=device)
        examples = {"input_args": (part,), "output_args": (part,)}
    stage = PipelineStage(own, rank, world, torch.device(device), **examples)
    schedule = Schedule1F1B(
        stage, n_microbatches=4, loss_fn=lambda output, target: (output - target).square().mean()
    )
    optimizer = _adamw(own)

    def step(batch: torch.Tensor) -> torch.Tensor:
        losses: list[torch.Tensor] = []
        given = (batch,) if rank == 0 else ()
        wanted = {"target": torch.zeros_like(batch), "losses": losses} if rank == world - 1 else {}
        schedule.step(*given, **wanted)
        optimizer.step()
        optimizer.zero_grad()
        return torch.stack([loss.detach() for loss in losses]).mean() if losses else batch.sum()

    return Engine(step, lambda: map(_local, own.parameters()))


def zero1(device: str) -> Engine:
    """Train with DDP and optimizer state that is divided among the ranks."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = _reduced(network(device))
    optimizer = ZeroRedundancyOptimizer(
        model.parameters(), optimizer_class=torch.optim.AdamW, lr=1e-3
    )
    return _trained(model, optimizer)


ENGINES: dict[str, Callable[[str], Engine]] = {
    one.__name__: one
    for one in (
        ddp,
        ddp_views,
        fsdp1,
        fsdp2,
        fsdp2_kept,
        fsdp2_half,
        fsdp2_offloaded,
        tensor_parallel,
        sequence_parallel,
        pipeline,
        zero1,
    )
}
