"""Rank of a job with an accident, which the first argument names. Prints one JSON object."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch.distributed as dist

import pgmo
from tests.integration.ranks.rank import counters_of, join, train

FOLDER = Path(sys.argv[2])


def shapes() -> dict[str, Any]:
    """Train with a different batch size on each rank."""
    rows = 32 + 16 * dist.get_rank()
    sessions = [
        pgmo.optimize(device="cpu", save=FOLDER, model_name="shapes"),
        pgmo.optimize(device="cpu", plan=FOLDER, model_name="shapes"),
    ]
    runs = [train("ddp", session, rows=rows) for session in (None, *sessions)]
    return {"runs": runs, "sessions": [counters_of(one) for one in sessions]}


def job() -> dict[str, Any]:
    """Train without pgmo and with it, from the existing plans.

    With KILLED in the environment, the last rank is killed after two replayed iterations.
    """
    session = pgmo.optimize(device="cpu", plan=FOLDER, save=FOLDER, model_name="job")
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
    return {"runs": runs, "session": counters_of(session)}


if __name__ == "__main__":
    join()
    result = globals()[sys.argv[1]]()
    print(json.dumps(result))
    sys.stdout.flush()
    os._exit(0)  # skips the wait for ended ranks
