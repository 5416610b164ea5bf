"""Tests of `pgmo run` on scripts that fail, use pgmo themselves, or change warnings or streams."""

import json

import pytest

import pgmo
from tests.integration.running import run

pytest.importorskip("torch")


OUT_OF_MEMORY = """
import torch
model = torch.nn.Linear(64, 1000)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(STEPS):
    optimizer.zero_grad()
    hidden = model(torch.randn(50, 64))
    if step == STEPS - 1:
        FAIL
    hidden.sum().backward()
    optimizer.step()
"""
RAISE = 'raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")'
EXHAUST = "torch.empty(1 << 55, dtype=torch.uint8)"


@pytest.mark.parametrize("fail", [RAISE, EXHAUST])
@pytest.mark.parametrize("steps", [1, 9])
def test_out_of_memory_leaves_a_profile_and_an_explanation(tmp_path, fail, steps):
    script = tmp_path / "train.py"
    script.write_text(OUT_OF_MEMORY.replace("STEPS", str(steps)).replace("FAIL", fail))
    done = run(tmp_path, "-m", "pgmo", "run", "--json", "run.json", script, check=False)
    assert done.returncode == 1
    assert "OutOfMemoryError: " in done.stderr or "RuntimeError: " in done.stderr
    (profile_path,) = tmp_path.glob("pgmo-oom-*.pgmoprof")
    (text_path,) = tmp_path.glob("pgmo-oom-*.txt")
    assert f"Next: pgmo report {profile_path.name}" in done.stderr
    profile = pgmo.Profile.load(profile_path)
    assert profile.circular == (steps == 9)
    assert 200_000 in profile.size  # the activation
    text = text_path.read_text()
    assert "out of memory" in text.splitlines()[0]
    assert "forward" in text
    assert json.loads((tmp_path / "run.json").read_text())["out_of_memory"] == [
        profile_path.name,
        text_path.name,
    ]


def test_out_of_memory_that_the_script_handles_is_none_of_our_business(tmp_path):
    script = tmp_path / "train.py"
    handled = f"try: {EXHAUST}\n        except RuntimeError: print('handled')"
    script.write_text(OUT_OF_MEMORY.replace("STEPS", "6").replace("FAIL", handled))
    done = run(tmp_path, "-m", "pgmo", "run", script)
    assert done.stdout == "handled\n"
    assert not list(tmp_path.glob("pgmo-oom-*"))


def test_warnings_as_errors_do_not_reach_the_script(tmp_path):
    """The session warns, because all iterations differ."""
    script = tmp_path / "train.py"
    script.write_text(
        "import torch, warnings\n"
        "warnings.simplefilter('error')\n"
        "model = torch.nn.Linear(8, 8)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for step in range(12):\n"
        "    optimizer.zero_grad()\n"
        "    for part in range(step):\n"
        "        kept = torch.ones(10 + 7 ** (part % 5) + step).exp()\n"
        "    model(torch.randn(4 + step, 8)).sum().backward()\n"
        "    optimizer.step()\n"
        "print('done')\n"
    )
    done = run(tmp_path, "-m", "pgmo", "run", "--json", "run.json", script)
    assert done.stdout == "done\n"
    fields = json.loads((tmp_path / "run.json").read_text())
    assert fields["notes"] == []
    assert fields["sessions"][0]["summary"]["iterations"] == 12
