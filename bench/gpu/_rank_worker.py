"""Worker of `ranks.py`: one rank that trains GPT-2, and prints one line of JSON.

Environment variables:

    RANK, WORLD_SIZE, LOCAL_RANK    as torchrun sets them
    MEETING                         path of the file by which the ranks find each other
"""

import contextlib
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn


def wrapped(engine: str, model: Any, world: int) -> nn.Module:
    """Return the model under DDP, or under FSDP2 with parameters in bfloat16."""
    if engine == "ddp":
        model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
        if dist.get_backend() == "fake":  # DDP cannot read the results of its collectives
            from workloads.training import sum_of_bucket

            model.register_comm_hook(None, sum_of_bucket)
        return model
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    mesh = init_device_mesh("cuda", (world,))
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32)
    for block in model.layers:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    return fully_shard(model, mesh=mesh, mp_policy=policy)


def step_of(model: nn.Module, batch: int, length: int, words: int) -> Callable[[], torch.Tensor]:
    """Return a function that trains on random words, and returns the loss."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    data = torch.Generator("cuda").manual_seed(dist.get_rank())

    def step() -> torch.Tensor:
        tokens = torch.randint(words, (batch, length), generator=data, device="cuda")
        with torch.autocast("cuda", torch.bfloat16):
            logits = model(tokens)
            loss = nn.functional.cross_entropy(logits.float().flatten(0, 1), tokens.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step


def main(job: dict[str, Any]) -> dict[str, Any]:
    """Train one rank; return its bytes, seconds, losses and a digest of its weights."""
    from _worker import make_deterministic
    from workloads import Shape
    from workloads.gpt import Model

    make_deterministic(strict=True)

    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    stub = bool(os.environ.get("PGMO_FAKECUDA"))
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    if stub:
        dist.init_process_group("fake", rank=rank, world_size=world)
    else:
        meeting = f"file://{os.environ['MEETING']}"
        dist.init_process_group("nccl", init_method=meeting, rank=rank, world_size=world)
    torch.manual_seed(0)
    with torch.device("cuda"):
        model = Model(Shape(job["batch"], small=job["small"]))
    words = model.head.out_features
    model = wrapped(job["engine"], model, world)
    session: Any = contextlib.nullcontext()
    if job["allocator"] == "pgmo":
        import pgmo

        session = pgmo.optimize()
    step = step_of(model, job["batch"], job["length"], words)
    losses, live, reserved, seconds = [], 0, 0, 0.0
    with session as opened:
        for number in range(job["iterations"]):
            if number == job["steady_from"]:
                live, reserved = _peaks()
                torch.cuda.reset_peak_memory_stats()
                torch.cuda.synchronize()
                seconds = time.perf_counter()
            losses.append(step())
            if opened is not None:
                opened.step()
        torch.cuda.synchronize()
        seconds = time.perf_counter() - seconds
        steady = _peaks()
        values = [float(loss).hex() for loss in losses]
        phase = str(opened.phase) if opened is not None else ""
    digest = hashlib.sha256()
    for one in model.parameters():
        local = one.to_local() if hasattr(one, "to_local") else one
        digest.update(local.detach().cpu().contiguous().numpy().tobytes())
    dist.destroy_process_group()
    return {
        "live": max(live, steady[0]),
        "live_steady": steady[0],
        "reserved": max(reserved, steady[1]),
        "reserved_steady": steady[1],
        "seconds_per_step": seconds / (job["iterations"] - job["steady_from"]),
        "phase": phase,
        "losses": values,
        "weights": digest.hexdigest(),
    }


def _peaks() -> tuple[int, int]:
    return torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
