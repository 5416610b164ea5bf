"""One rank of a data-parallel training on the CPU, without pgmo, with it, and from its plan.

python -m tests.integration.data_parallel RANK WORLD FOLDER    prints one JSON object
"""

import hashlib
import json
import sys
from contextlib import nullcontext
from pathlib import Path

import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel

import pgmo

STEPS = 12


def train(rank: int, session: pgmo.Session | None) -> tuple[list[float], str]:
    """Losses of this rank and a checksum of the weights at the end, which all ranks share."""
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Linear(64, 256),
        torch.nn.ReLU(),
        torch.nn.Linear(256, 256),
        torch.nn.Linear(256, 4),
    )
    model = DistributedDataParallel(network, bucket_cap_mb=1)
    optimizer = torch.optim.AdamW(model.parameters())
    data = torch.Generator().manual_seed(rank)
    losses = []
    with nullcontext() if session is None else session:
        for _ in range(STEPS):
            with nullcontext() if session is None else session.iteration():
                loss = model(torch.randn(32, 64, generator=data)).square().mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                losses.append(loss.item())
    weights = b"".join(weight.detach().numpy().tobytes() for weight in network.parameters())
    return losses, hashlib.sha256(weights).hexdigest()


def main(rank: int, world: int, folder: Path) -> None:
    """Trains three times and prints what came out."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=world
    )
    name = f"rank{rank}"
    recording = pgmo.optimize(device="cpu", save=folder, model_name=name)
    results = [train(rank, None), train(rank, recording)]
    replaying = pgmo.optimize(device="cpu", plan=folder / f"{name}.pgmoplan")
    results.append(train(rank, replaying))
    told = {
        "losses": [losses for losses, _ in results],
        "weights": [weights for _, weights in results],
        "recorded": recording.summary().recorded,
        "hit_rates": [recording.summary().hit_rate, replaying.summary().hit_rate],
        "replayed": [recording.summary().replayed, replaying.summary().replayed],
    }
    torch.distributed.destroy_process_group()
    print(json.dumps(told))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
