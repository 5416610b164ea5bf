"""Rank of a small job over NCCL: `python -m tests.gpu.rank_program FOLDER ENGINE...`

RANK, WORLD_SIZE and LOCAL_RANK are as torchrun sets them; the ranks meet in FOLDER. Trains with
each engine without pgmo, with it, and from the directory of plans, and prints one line of JSON. On
the stub, which has no NCCL, the process group is a fake one, and values mean nothing.
"""

import json
import os
import sys
from contextlib import nullcontext

from tests.gpu.device import STUB, make_deterministic

os.environ.setdefault("ENGINES_WIDTH", "1024")
os.environ.setdefault("ENGINES_ROWS", "256")
STEPS = 12


def train(engine, session):
    """Train, and return the losses in hexadecimal and a checksum of this rank's weights."""
    import torch
    import torch.distributed as dist

    from tests.gpu.running import digest
    from tests.integration.ranks.engines import ENGINES, ROWS, WIDTH

    made = ENGINES[engine]("cuda")
    data = torch.Generator("cuda").manual_seed(dist.get_rank())
    losses = []
    with nullcontext() if session is None else session:
        for _ in range(STEPS):
            with nullcontext() if session is None else session.iteration():
                batch = torch.randn(ROWS, WIDTH, generator=data, device="cuda")
                losses.append(float(made.step(batch)).hex())
    torch.cuda.synchronize()
    return losses, digest(made.weights())


def main(folder, engines):
    import torch
    import torch.distributed as dist

    import pgmo

    make_deterministic()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    if STUB:
        dist.init_process_group("fake", rank=rank, world_size=world)
    else:
        meeting = f"file://{folder}/meeting"
        dist.init_process_group("nccl", init_method=meeting, rank=rank, world_size=world)
    results = {"rank": rank}
    for engine in engines:
        sessions = [
            pgmo.optimize(save=folder, model_name=engine),
            pgmo.optimize(plan=folder, model_name=engine),
        ]
        runs = [train(engine, one) for one in (None, *sessions)]
        results[engine] = {
            "runs": runs,
            "devices": [one.device for one in sessions],
            "phases": [[each.phase.value for each in one.history] for one in sessions],
            "hit_bytes": [one.history[-1].hit_bytes_rate for one in sessions],
            "saved": [one.name for one in sessions[0].saved],
        }
    dist.destroy_process_group()
    print(json.dumps(results))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
