"""Ends of rehearsals, and the files that they leave for the real run."""

import json
import os

import pytest

import pgmo
from pgmo.cli.main import main
from pgmo.errors import FileError, OptionError, RehearsalError
from pgmo.rehearsal import rehearse
from pgmo.rehearsal.environment import of_card
from tests import forked
from tests.fakecuda.programs import ROOT

TRAIN = """
import sys, torch
from torch import nn
model = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(8)]).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for step in range(12):
    loss = model(torch.randn(256, 1024, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item())
"""

LARGE = TRAIN.replace("nn.Linear(1024, 1024)", "nn.utils.skip_init(nn.Linear, 1024, 1024)").replace(
    "range(8)", "range(500)"
)
"""`TRAIN` with parameters of more than 2 GiB, which are not initialized, to save time."""


def test_a_plan_serves_the_first_request_of_the_real_run(run, tmp_path):
    answer = run(TRAIN, way="pgmo", save=tmp_path / "plans", iterations=8)
    assert answer.plan is not None
    assert answer.iterations == 8
    counted = tmp_path / "run.json"
    under = ("-m", "pgmo", "run", "--plan", str(answer.plan), "--json", str(counted))
    environment = {**os.environ, **of_card(pgmo.cards.find("RTX 4090"), 1), "PYTHONPATH": str(ROOT)}
    script = str(tmp_path / "train.py")
    ended = forked.run_command(tmp_path, *under, script, environment=environment)
    assert ended.exit_code == 0, ended.errors
    (session,) = json.loads(counted.read_text())["sessions"]
    for one in session["iterations"]:
        assert one["phase"] == "replay"
        # The optimizer allocates its state, of which one number may match no request of the plan.
        assert set(one["misses"]) <= {"persistent", "unknown"}
        assert one["misses"].get("unknown", 0) <= 1
    assert session["iterations"][1]["hits"] == session["iterations"][1]["requests"]


@pytest.mark.parametrize("way", ["default", "pgmo"])
def test_out_of_memory_says_where(run, way):
    answer = run(LARGE, card="2GiB", way=way)
    assert not answer.fits
    assert not answer.failed
    assert answer.exit_code == 1
    assert "CUDA out of memory" in answer.out_of_memory
    assert answer.out_of_memory.splitlines()[-1].partition("train.py:")[2].startswith("4: model =")
    assert answer.card_peak <= 2 << 30


def test_an_error_of_the_script_is_no_answer(run):
    answer = run("raise ZeroDivisionError('of the script')")
    assert answer.failed
    assert answer.exit_code == 1
    assert "ZeroDivisionError: of the script" in answer.error


def test_a_script_that_refuses_its_arguments_has_the_last_word(run):
    answer = run("import argparse\nargparse.ArgumentParser().parse_args()\n", "--unknown")
    assert answer.failed
    assert answer.exit_code == 2
    assert answer.reason.startswith("last line of output: ")
    assert answer.reason.endswith("unrecognized arguments: --unknown")


CANNOT = [
    (
        """
        import torch
        torch.cuda.nccl.all_reduce([torch.ones(8, device="cuda")])
        """,
        "it calls NCCL directly",
    ),
    (
        """
        import torch
        (torch.eye(8, device="cuda").to_sparse_csr() @ torch.ones(8, 8, device="cuda")).sum().item()
        """,
        "it calls a CUDA library that rehearsals lack",
    ),
]


@pytest.mark.parametrize(("code", "begins"), CANNOT)
def test_a_note_names_the_call_that_rehearsals_lack(run, code, begins):
    answer = run(code)
    assert answer.failed
    cannot = "the script probably cannot be rehearsed unchanged"
    assert answer.notes[0].startswith(f"{cannot}: {begins}")


@pytest.mark.parametrize("ending", ["sys.exit(0)", "import os; os._exit(0)"])
def test_every_end_is_noticed(run, ending):
    code = f"import sys, torch\ntorch.empty(1 << 24, device='cuda')\n{ending}\n"
    answer = run(code)
    assert answer.fits
    assert answer.allocated_peak == 4 << 24


def test_modules_are_run_by_their_names(run, tmp_path, monkeypatch):
    (tmp_path / "own.py").write_text("import torch\ntorch.empty(512, device='cuda')\n")
    monkeypatch.chdir(tmp_path)
    answer = rehearse(["-m", "own"], card=pgmo.cards.find("16GiB"), way="default")
    assert answer.fits
    assert answer.allocated_peak == 2048


def test_patience_has_an_end(run, tmp_path):
    (tmp_path / "wait.py").write_text("import time\ntime.sleep(600)\n")
    with pytest.raises(RehearsalError, match="did not end within 1 s"):
        rehearse([str(tmp_path / "wait.py")], card=pgmo.cards.find("16GiB"), timeout=1)


def test_missing_scripts_and_invalid_options_are_refused(run, tmp_path):
    card = pgmo.cards.find("16GiB")
    with pytest.raises(FileError, match="there is no file"):
        rehearse([str(tmp_path / "none.py")], card=card)
    with pytest.raises(OptionError, match="require way='pgmo'"):
        run("", way="expandable", save=tmp_path)
    with pytest.raises(OptionError, match="rank=2 must be from 0"):
        run("", world=2, rank=2)


def test_the_command(tmp_path, capfd):
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    given = ["rehearse", "--card", "RTX 4090", "--way", "default", "--iterations", "2"]
    assert main([*given, "--json", str(script)]) == 0
    fields = json.loads(capfd.readouterr().out)
    assert fields["fits"]
    assert fields["iterations"] == 2
    script.write_text(LARGE)
    assert main([*given, "--card", "2GiB", str(script)]) == 4
    assert "it does not fit" in capfd.readouterr().out
    script.write_text("raise SystemExit(3)")
    assert main([*given, str(script)]) == 1


def test_memory_that_ran_out_for_a_while_is_said(run):
    code = """
    import torch
    try:
        torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
    """
    answer = run(code)
    assert answer.fits
    assert answer.notes[0] == "memory ran out 1 times, and no such error ended the script"
