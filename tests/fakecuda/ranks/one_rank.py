"""One rank of a fake world: `python -m ... WORLD RANK FOLDER [ENGINE]...`

Trains with each engine over a fake process group, whose collectives do nothing, and prints the
figures of the sessions as a JSON object, by engine.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import pgmo
from tests.integration.ranks.engines import ENGINES, ROWS, WIDTH

STEPS = 10


def train(engine: str, folder: Path) -> dict[str, Any]:
    """Train a few steps, and return the session's figures."""
    made = ENGINES[engine]("cuda")
    with pgmo.optimize(plan=folder, save=folder, model_name=engine) as session:
        for _ in range(STEPS):
            made.step(torch.randn(ROWS, WIDTH, device="cuda"))
            session.step()
    summary = session.counted()
    last = session.history[-1]
    return {
        "phase": str(last.phase),
        "hit_rate": last.hit_rate,
        "recorded": summary.recorded,
        "arena": summary.arena,
        "notes": list(summary.notes),
        "saved": [path.name for path in session.saved],
    }


def main(world: int, rank: int, folder: Path, engines: list[str]) -> None:
    """Train, and print the figures."""
    dist.init_process_group("fake", rank=rank, world_size=world)
    results = {engine: train(engine, folder) for engine in engines}
    print(json.dumps(results))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])
