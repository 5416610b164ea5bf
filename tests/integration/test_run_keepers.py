"""Tests of `pgmo run --who-keeps`: the keepers of growing blocks, and the largest blocks."""

import json

import pytest

import pgmo
from tests.integration.running import run

pytest.importorskip("torch")

TRAIN = """
import torch

class Trainer:
    def __init__(self):
        self.model = torch.nn.Linear(1024, 512)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.outputs = []

def main():
    trainer = Trainer()
    for _ in range(16):
        y = trainer.model(torch.ones(1024, 1024))
        y.sum().backward()
        trainer.optimizer.step()
        trainer.optimizer.zero_grad()
        trainer.outputs.append(y.detach())
    ENDING

main()
"""


def under_pgmo(folder, *options, ending="pass"):
    (folder / "train.py").write_text(TRAIN.replace("ENDING", ending))
    return run(folder, "-m", "pgmo", "run", *options, "train.py", check=False)


def test_growth_names_the_list_of_a_function_that_has_ended(tmp_path):
    done = under_pgmo(tmp_path, "--who-keeps", "--save", "plans", "--json", "run.json")
    lines = done.stderr.splitlines()
    (first,) = [number for number, one in enumerate(lines) if "live memory grows" in one]
    kept = "trainer.outputs in main() (list of 14 tensors, 28.0 MiB)"
    assert lines[first + 1] == f"  kept by    {kept}"
    alive = [one for one in lines if one.startswith("  alive ")]
    assert alive[0] == f"  alive      after iteration 15: {kept}"
    assert any("parameters of trainer.model in main()" in one for one in alive)
    (session,) = json.loads((tmp_path / "run.json").read_text())["sessions"]
    assert session["summary"]["growth"]["kept"] == [kept]
    profile = pgmo.Profile.load(tmp_path / "plans" / "train.pgmoprof")
    assert profile.meta.notes["kept by"] == kept
    shown = run(tmp_path, "-m", "pgmo", "stats", "plans/train.pgmoprof").stdout
    assert f"kept by     {kept}" in shown.replace("\n            ", " ")


def test_an_error_names_what_its_functions_keep(tmp_path):
    under_pgmo(tmp_path, "--who-keeps", ending="raise MemoryError('full')")
    (text,) = [path.read_text() for path in tmp_path.glob("pgmo-oom-*.txt")]
    assert "\nkept by: trainer.outputs in main() (list of " in text
    assert "\nalive at the end: trainer.outputs in main() (list of " in text
    assert "Growing memory is kept by trainer.outputs in main()" in text


def test_it_is_off_by_default(tmp_path):
    done = under_pgmo(tmp_path, "--save", "plans")
    assert "live memory grows" in done.stderr
    assert "kept by" not in done.stderr
    assert "  alive " not in done.stderr
    assert "kept by" not in pgmo.Profile.load(tmp_path / "plans" / "train.pgmoprof").meta.notes
    assert "Next: pgmo run --who-keeps train.py\n      pgmo report plans/train" in done.stderr


def test_growth_without_files_asks_for_a_search(tmp_path):
    done = under_pgmo(tmp_path)
    assert done.stderr.splitlines()[-1] == "Next: pgmo run --who-keeps train.py"
