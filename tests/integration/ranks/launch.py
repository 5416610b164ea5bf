"""Launcher of all ranks of a small job."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from tests import forked

ROOT = Path(__file__).resolve().parents[3]


def launch(
    folder: Path, *command: str, world: int = 2, ranks: "range | None" = None, **more: str
) -> list[forked.Ended]:
    """Run a script, or `python -m` a module, in every rank, with PGMO_CHECK=1.

    Args:
        folder: folder in which the ranks meet.
        command: path that ends in ".py" or name of a module, and arguments.
        world: number of ranks of the job.
        ranks: ranks to start; None: all.
        more: further environment variables.
    """
    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        pytest.skip("this torch has no gloo")

    def start(rank: int) -> forked.Ended:
        environment = {
            **os.environ,
            "GLOO_SOCKET_IFNAME": "lo",
            "PGMO_CHECK": "1",
            "RANK": str(rank),
            "WORLD_SIZE": str(world),
            "MEETING": str(folder / "meeting"),
            **more,
        }
        words = command if command[0].endswith(".py") else ("-m", *command)
        return forked.run_command(ROOT, *words, environment=environment)

    chosen = range(world) if ranks is None else ranks
    with ThreadPoolExecutor(len(chosen)) as pool:
        return list(pool.map(start, chosen))


def printed(ended: list[forked.Ended]) -> list[Any]:
    """Return the last line of each rank's output as JSON; fail if a rank has failed."""
    for one in ended:
        assert one.exit_code == 0, one.errors
    return [json.loads(one.output.splitlines()[-1]) for one in ended]
