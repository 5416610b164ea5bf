"""One rank of a job in which something happens; see the functions. Prints one JSON object."""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch.distributed as dist

import pgmo
from pgmo.allocator.ranks import one_plan
from tests.integration.ranks.rank import STEPS, join, told, train

FOLDER = Path(sys.argv[2])


def shapes() -> dict[str, Any]:
    """Each rank has batches of a size of its own."""
    rows = 32 + 16 * dist.get_rank()
    sessions = [pgmo.optimize(device="cpu", save=FOLDER, model_name="shapes") for _ in range(2)]
    runs = [train("ddp", session, rows=rows) for session in (None, *sessions)]
    return {"runs": runs, "sessions": [told(one) for one in sessions]}


def job() -> dict[str, Any]:
    """Trains without pgmo and with it, from whatever plans there are.

    With KILLED in the environment the last rank is killed once it replays, with its plan saved.
    """
    session = pgmo.optimize(device="cpu", save=FOLDER, model_name="job")
    if "KILLED" in os.environ and dist.get_rank() == dist.get_world_size() - 1:
        iteration = session.iteration

        @contextmanager
        def last() -> Iterator[None]:
            with iteration():
                yield
            if session.counted().replayed == 2:
                os.kill(os.getpid(), signal.SIGKILL)

        session.iteration = last  # type: ignore[method-assign]
    runs = [train("ddp", None), train("ddp", session)]
    return {"runs": runs, "session": told(session)}


def dies_planning() -> dict[str, Any]:
    """The last rank claims a plan and is killed; the others would have had it from there."""
    from pgmo.allocator.plans import loop_planning

    one_plan.PATIENCE = 1.0
    claimed = FOLDER / "claimed"

    def die(*_arguments: object) -> None:
        claimed.touch()
        os.kill(os.getpid(), signal.SIGKILL)

    if dist.get_rank() == dist.get_world_size() - 1:
        loop_planning.plan_profile = die  # type: ignore[assignment]
    else:
        while not claimed.exists():
            time.sleep(0.01)
    session = pgmo.optimize(device="cpu", model_name="alone")
    begin = time.monotonic()
    with session:
        train_alone(session)
    taken = time.monotonic() - begin
    return {
        "session": told(session),
        "alone": one_plan.counted.alone,
        "taken": one_plan.counted.taken,
        "waited": taken,
    }


def train_alone(session: pgmo.Session) -> None:
    """Trains without the other ranks."""
    import torch

    from tests.integration.ranks.engines import ROWS, WIDTH, network

    model = network("cpu")
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(STEPS):
        model(torch.randn(ROWS, WIDTH)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        session.step()


if __name__ == "__main__":
    join()
    result = globals()[sys.argv[1]]()
    print(json.dumps(result))
    sys.stdout.flush()
    os._exit(0)  # nobody waits for ranks that are gone
