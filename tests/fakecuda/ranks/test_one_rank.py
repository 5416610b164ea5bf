"""One rank of a world, planned without the other ranks and without a GPU."""

from pathlib import Path

import pytest

from tests.fakecuda.programs import ROOT, run_command
from tests.integration.ranks.engines import ENGINES

SHARDED = [name for name in ENGINES if name != "pipeline"]


def train(folder: Path, world: int, *engines: str, rank: int = 0):
    """Train on one rank of a world; return the figures of the sessions by engine."""
    words = ("-m", "tests.fakecuda.ranks.one_rank", str(world), str(rank), str(folder), *engines)
    return run_command(ROOT, *words, ENGINES_WIDTH="512", ENGINES_ROWS="128")


@pytest.fixture(scope="module")
def eight(tmp_path_factory):
    folder = tmp_path_factory.mktemp("eight")
    return train(folder, 8, *SHARDED) | train(folder, 4, "pipeline", rank=1)


@pytest.mark.parametrize("engine", ENGINES)
def test_engines_are_served_over_a_fake_process_group(eight, engine):
    one = eight[engine]
    assert one["phase"] in ("replay", "backoff")  # if pages alone do as well, no plan serves
    assert one["phase"] == "backoff" or one["hit_rate"] > 0.6
    assert one["saved"][-1].endswith(".pgmoplan")


WORLDS = (8, 64, 1024)


@pytest.fixture(scope="module")
def worlds(tmp_path_factory):
    """Return the folder of plans of three worlds, and the figures of one rank of each."""
    folder = tmp_path_factory.mktemp("worlds")
    return folder, [train(folder, one, "fsdp2", rank=one // 2 - 1)["fsdp2"] for one in WORLDS]


def test_each_size_of_the_world_has_a_plan_of_its_own(worlds):
    folder, _ = worlds
    assert len(list(folder.glob("fsdp2-*.pgmoplan"))) == 3
    ranks = {path.stem for path in folder.glob("*.txt")}
    assert {f"fsdp2-rank{world // 2 - 1}-of-{world}" for world in WORLDS} <= ranks


def test_a_shard_of_another_size_is_planned_anew(worlds):
    folder, (_, one, _) = worlds
    assert f"no plan in {folder} fits: the best of 1 has 7" in one["notes"][0]
    assert one["recorded"] > 0
    assert one["hit_rate"] == 1


def test_a_rank_begins_with_its_own_plan_and_others_of_its_world_with_the_same(worlds):
    folder, _ = worlds
    own = train(folder, 64, "fsdp2", rank=31)["fsdp2"]
    assert own["recorded"] == 0
    assert ", the plan of rank 31 of 64" in own["notes"][0]
    other = train(folder, 64, "fsdp2", rank=63)["fsdp2"]
    assert 0 < other["recorded"] <= 2  # until an iteration has followed the plan
    assert "which has 100.0% of the last iteration's requests" in other["notes"][0]
