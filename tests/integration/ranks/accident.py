"""One rank of a job in which something happens; see the functions. Prints one JSON object."""

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
from tests.integration.ranks.rank import join, told, train

FOLDER = Path(sys.argv[2])


def shapes() -> dict[str, Any]:
    """Each rank has batches of a size of its own."""
    rows = 32 + 16 * dist.get_rank()
    sessions = [
        pgmo.optimize(device="cpu", save=FOLDER, model_name="shapes"),
        pgmo.optimize(device="cpu", plan=FOLDER, model_name="shapes"),
    ]
    runs = [train("ddp", session, rows=rows) for session in (None, *sessions)]
    return {"runs": runs, "sessions": [told(one) for one in sessions]}


def job() -> dict[str, Any]:
    """Trains without pgmo and with it, from whatever plans there are.

    With KILLED in the environment the last rank is killed once it replays, with its plan saved.
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
    return {"runs": runs, "session": told(session)}


if __name__ == "__main__":
    join()
    result = globals()[sys.argv[1]]()
    print(json.dumps(result))
    sys.stdout.flush()
    os._exit(0)  # nobody waits for ranks that are gone
