"""Training in one of two processes on a card; see `test_several_jobs.py`.

python -m tests.gpu.shared_program PROGRAM FOLDER
"""

import json
import sys
import time
from pathlib import Path

import torch

import pgmo
from tests.gpu import programs
from tests.gpu.device import make_deterministic
from tests.gpu.running import ITERATIONS, digest, plan_at_once


def main() -> None:
    """Train, and print a digest of all values and the bytes reserved on the card."""
    name, folder = sys.argv[1], Path(sys.argv[2])
    torch.cuda.memory.change_current_allocator(pgmo.torch_allocator())
    make_deterministic()
    torch.manual_seed(0)
    program = getattr(programs, name)()
    (folder / name).touch()
    while len(list(folder.glob("[A-Z]*"))) < 2:
        time.sleep(0.01)
    values = []
    plan_at_once()
    with pgmo.optimize(device="cuda") as session:
        for index in range(ITERATIONS):
            torch.manual_seed(1000 + index)
            with session.iteration():
                values.append(program.step(index).detach().cpu())
                program.optimizer.zero_grad()
        between = torch.cuda.memory_reserved()
    torch.cuda.synchronize()
    results = {
        "digest": digest([*values, *program.state()]),
        "between": between,
        "replayed": sum(one.phase.value == "replay" for one in session.history),
        "arena": session.plan.arena if session.plan else 0,
    }
    print(json.dumps(results))


if __name__ == "__main__":
    main()
