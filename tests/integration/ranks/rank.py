"""Rank that trains with each engine without pgmo, with it, and from the directory of plans.

RANK, WORLD_SIZE     as torchrun sets them
MEETING              a file through which the ranks find each other

Prints one JSON object: the results of each engine.
"""

import json
import os
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import pgmo
from tests.integration.ranks.engines import ENGINES, ROWS, WIDTH
from tests.same_bits import bits

STEPS = 12


def join() -> None:
    """Join the process group."""
    torch.set_num_threads(1)
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    meeting = f"file://{os.environ['MEETING']}"
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=size)


def leave() -> None:
    """End the process group together with the other ranks, and wait 1 s.

    gloo's threads keep Python objects for a moment. If the interpreter ended before, PyTorch would
    abort the process, with and without pgmo.
    """
    dist.barrier()
    dist.destroy_process_group()
    time.sleep(1)


def train(
    engine: str, session: "pgmo.Session | None", *, steps: int = STEPS, rows: int = ROWS
) -> tuple[list[float], str]:
    """Train, and return the losses and a checksum of this rank's weights."""
    made = ENGINES[engine]("cpu")
    data = torch.Generator().manual_seed(dist.get_rank())
    losses = []
    with nullcontext() if session is None else session:
        for _ in range(steps):
            with nullcontext() if session is None else session.iteration():
                batch = torch.randn(rows, WIDTH, generator=data)
                losses.append(made.step(batch).item())
    return losses, bits(made.weights())


def counters_of(session: "pgmo.Session") -> dict[str, Any]:
    """Return the figures of a session that tests compare."""
    summary = session.counted()
    return {
        "recorded": summary.recorded,
        "replayed": summary.replayed,
        "hit_rate": summary.hit_rate,
        "notes": list(summary.notes),
        "saved": [path.name for path in session.saved],
    }


def main(folder: Path, engines: list[str]) -> None:
    """Train with each engine, and print the results."""
    join()
    results = {}
    for engine in engines:
        sessions = [
            pgmo.optimize(device="cpu", save=folder, model_name=engine),
            pgmo.optimize(device="cpu", plan=folder, model_name=engine),
        ]
        runs = [train(engine, None), *(train(engine, one) for one in sessions)]
        results[engine] = {
            "losses": [losses for losses, _ in runs],
            "weights": [weights for _, weights in runs],
            "sessions": [counters_of(one) for one in sessions],
        }
    leave()
    print(json.dumps(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
