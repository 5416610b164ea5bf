"""Tests of the callbacks in two processes, with a session each and one directory of plans."""

from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.integration.ranks.callback import STEPS
from tests.integration.ranks.launch import launch, printed

LOOPS = [
    pytest.param("lightning", "DDPStrategy", marks=pytest.mark.slow),
    ("lightning", "ModelParallelStrategy"),
    ("transformers", "Trainer"),
]


@pytest.mark.parametrize(("package", "name"), LOOPS)
def test_losses_are_the_same_and_the_next_run_begins_from_a_plan(
    package: str, name: str, tmp_path: Path
) -> None:
    pytest.importorskip(package)
    command = ("tests.integration.ranks.callback", str(tmp_path), package, name)
    for one in printed(launch(tmp_path, *command)):
        without, *with_pgmo = one["losses"]
        assert len(without) == STEPS
        assert with_pgmo == [without, without]
        recording, replaying = one["sessions"]
        assert recording["replayed"] > 0
        assert replaying["replayed"] > recording["replayed"]
        assert replaying["notes"][0].startswith("began with job-")
    names = {path.name for path in tmp_path.glob("*.txt")}
    assert names == {"job-rank0-of-2.txt", "job-rank1-of-2.txt"}
