"""DistributedDataParallel on the CPU: every rank has a session of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from tests.integration.data_parallel import STEPS

ROOT = Path(__file__).resolve().parents[2]
WORLD = 2


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        pytest.skip("this torch has no gloo")
    folder = tmp_path_factory.mktemp("ranks")
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "PGMO_CHECK": "1"}
    command = [sys.executable, "-m", "tests.integration.data_parallel"]
    running = [
        subprocess.Popen(
            [*command, str(rank), str(WORLD), str(folder)],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(WORLD)
    ]
    try:
        ended = [process.communicate(timeout=300) for process in running]
    finally:
        for process in running:
            process.kill()
    for process, (_, messages) in zip(running, ended, strict=True):
        assert process.returncode == 0, messages
    return [json.loads(printed.splitlines()[-1]) for printed, _ in ended]


def test_losses_and_weights_are_the_same_bit_for_bit(ranks: list[dict[str, Any]]) -> None:
    for one in ranks:
        without, with_pgmo, with_saved_plan = one["losses"]
        assert len(without) == STEPS
        assert with_pgmo == without
        assert with_saved_plan == without
    weights = {checksum for one in ranks for checksum in one["weights"]}
    assert len(weights) == 1
    assert ranks[0]["losses"][0] != ranks[1]["losses"][0]  # each rank has data of its own


def test_every_rank_replays(ranks: list[dict[str, Any]]) -> None:
    for one in ranks:
        recorded_itself, from_plan = one["replayed"]
        assert recorded_itself == STEPS - one["recorded"] > 0
        assert from_plan > recorded_itself
        assert one["hit_rates"][0] > 0.99
        # From the first iteration on, in which DDP makes its buckets and rebuilds them.
        assert one["hit_rates"][1] > 0.9
