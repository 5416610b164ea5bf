"""Tests of ranks that differ, are killed or restart, and of jobs of another size."""

import re
import signal
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.integration.ranks.launch import launch, printed
from tests.integration.ranks.rank import STEPS

ACCIDENT = "tests.integration.ranks.accident"


def test_ranks_of_different_shapes_have_plans_of_their_own(tmp_path: Path) -> None:
    ranks = printed(launch(tmp_path, ACCIDENT, "shapes", str(tmp_path)))
    for one in ranks:
        without, *with_pgmo = one["runs"]
        assert with_pgmo == [without, without]
        assert one["sessions"][1]["recorded"] == 0
    first, second = (one["sessions"][0]["saved"][-1] for one in ranks)
    assert first != second
    assert {path.name for path in tmp_path.glob("*.pgmoplan")} == {first, second}


def test_a_job_whose_rank_was_killed_begins_again_from_its_plan(tmp_path: Path) -> None:
    *_, last = launch(tmp_path, ACCIDENT, "job", str(tmp_path), KILLED="1")
    assert last.exit_code == -signal.SIGKILL
    (tmp_path / "meeting").unlink(missing_ok=True)
    for one in printed(launch(tmp_path, ACCIDENT, "job", str(tmp_path))):
        without, with_pgmo = one["runs"]
        assert with_pgmo == without
        assert one["session"]["recorded"] == 0
        assert one["session"]["replayed"] == STEPS


def test_a_job_of_another_size_begins_with_a_plan_that_fits(tmp_path: Path) -> None:
    printed(launch(tmp_path, ACCIDENT, "job", str(tmp_path)))
    (tmp_path / "meeting").unlink(missing_ok=True)
    ranks = printed(launch(tmp_path, ACCIDENT, "job", str(tmp_path), world=3))
    for one in ranks:
        without, with_pgmo = one["runs"]
        assert with_pgmo == without
        (note,) = one["session"]["notes"]
        assert re.fullmatch(
            r"began with job-\w+\.pgmoplan, which has .*% of the last iteration's requests", note
        )
        assert one["session"]["recorded"] <= 2  # until an iteration follows the plan
