"""One rank of any world, without the others and without a GPU: planned before they are rented."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pgmo.allocator.ranks import index
from tests.fakecuda.programs import ROOT
from tests.integration.ranks.engines import ENGINES

SHARDED = [name for name in ENGINES if name != "pipeline"]


def train(folder: Path, world: int, *engines: str, rank: int = 0):
    """What the engines' sessions did on one rank of a world."""
    command = [sys.executable, "-m", "tests.fakecuda.ranks.one_rank"]
    done = subprocess.run(
        [*command, str(world), str(rank), str(folder), *engines],
        cwd=ROOT,
        env={**os.environ, "ENGINES_WIDTH": "512", "ENGINES_ROWS": "128", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def eight(tmp_path_factory):
    folder = tmp_path_factory.mktemp("eight")
    told = train(folder, 8, *SHARDED)
    stages = train(folder, 4, "pipeline", rank=1)
    return {**told["engines"], **stages["engines"]}, told["shared"]


@pytest.mark.parametrize("engine", ENGINES)
def test_engines_are_served_over_a_fake_process_group(eight, engine):
    one = eight[0][engine]
    assert one["phase"] in ("replay", "wait")  # where pages alone do as well, the plan waits
    assert one["phase"] == "wait" or one["hit_rate"] > 0.6
    assert one["saved"][-1].endswith(".pgmoplan")


def test_nobody_is_asked_for_a_plan(eight):
    assert eight[1] == 0


def test_each_size_of_the_world_has_a_plan_of_its_own(tmp_path):
    for world in (8, 64, 1024):
        train(tmp_path, world, "fsdp2", rank=world // 2 - 1)
    entries = {one.world: one for one in index.read(tmp_path / "fsdp2.ranks.json")}
    assert set(entries) == {8, 64, 1024}
    assert len({one.shapes for one in entries.values()}) == 3


def test_a_rank_of_the_same_world_begins_with_the_plan_that_was_made_before(tmp_path):
    train(tmp_path, 64, "fsdp2")
    one = train(tmp_path, 64, "fsdp2", rank=63)["engines"]["fsdp2"]
    assert (
        "for rank 63 of 64, with other arguments: it has 100.0% of the requests" in one["notes"][0]
    )
    assert one["recorded"] <= 2  # the command line names the rank, so an iteration has to follow it


def test_a_shard_of_another_size_is_not_near_and_planned_anew(tmp_path):
    train(tmp_path, 8, "fsdp2")
    one = train(tmp_path, 64, "fsdp2")["engines"]["fsdp2"]
    assert "near enough (the nearest was of rank 0 of 8, for rank 0 of 64, " in one["notes"][0]
    assert one["recorded"] > 0
    assert one["hit_rate"] == 1
