"""`pgmo run` on unmodified scripts: the same results bit for bit, and replay."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pgmo

pytest.importorskip("torch")

SCRIPTS = Path(__file__).parent / "scripts"
RESULT = re.compile(r"^(\w+ )?-?0x[0-9a-f.]+p[+-]\d+$|^[0-9a-f]{64}$")


def run(folder, *command, check=True):
    root = str(Path(pgmo.__file__).parents[1])
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": root}
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not check or done.returncode == 0, done.stderr
    return done


def results(done):
    """The lines that hold losses and the digest of the final weights."""
    return [line for line in done.stdout.splitlines() if RESULT.match(line)]


def plainly_and_under_pgmo(folder, script, *arguments, options=()):
    """Runs a script twice; returns what `--json` says of its session."""
    plain = run(folder, SCRIPTS / script, *arguments)
    command = ("-m", "pgmo", "run", "--json", "run.json", *options, SCRIPTS / script, *arguments)
    served = run(folder, *command)
    assert len(results(plain)) > 1
    assert results(served) == results(plain)
    fields = json.loads((folder / "run.json").read_text())
    assert fields["exit_code"] == 0
    assert fields["notes"] == []
    (session,) = fields["sessions"]
    assert session["device"] == "cpu"
    return session


def hit_rates(session, last):
    iterations = session["iterations"][-last:]
    assert [one["phase"] for one in iterations] == ["replay"] * last
    return [one["hits"] / one["requests"] for one in iterations]


def test_a_plain_loop_with_evaluations(tmp_path):
    session = plainly_and_under_pgmo(tmp_path, "plain.py", 20)
    assert session["summary"]["iterations"] == 20
    assert min(hit_rates(session, last=14)) == 1  # evaluations are left out


def test_gradient_accumulation(tmp_path):
    session = plainly_and_under_pgmo(tmp_path, "accumulation.py", 12)
    assert session["summary"]["iterations"] == 12
    assert min(hit_rates(session, last=6)) >= 0.99


@pytest.mark.parametrize("critic_steps", [1, 5])
def test_two_optimizers_are_one_iteration(tmp_path, critic_steps):
    session = plainly_and_under_pgmo(tmp_path, "gan.py", 12, critic_steps)
    assert session["summary"]["iterations"] == 12
    assert session["summary"]["plans"] == 1
    assert min(hit_rates(session, last=6)) >= 0.99


def test_an_optimizer_that_evaluates_several_times(tmp_path):
    session = plainly_and_under_pgmo(tmp_path, "closures.py", 10)
    assert session["summary"]["iterations"] == 10


def test_steps_that_a_scaler_leaves_out_end_iterations(tmp_path):
    session = plainly_and_under_pgmo(tmp_path, "scaled.py", 20)
    assert session["summary"]["iterations"] == 20
    assert max(one["requests"] for one in session["iterations"]) < 2 * min(
        one["requests"] for one in session["iterations"]
    )


def test_a_lightning_script(tmp_path):
    pytest.importorskip("lightning")
    session = plainly_and_under_pgmo(tmp_path, "with_lightning.py", 20, tmp_path)
    assert session["summary"]["iterations"] == 20
    rates = hit_rates(session, last=12)
    assert sum(rates) / 12 >= 0.99
    assert rates.count(1) >= 9  # around a validation there is one request more


def test_a_transformers_script(tmp_path):
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    session = plainly_and_under_pgmo(tmp_path, "with_transformers.py", 16, tmp_path)
    assert session["summary"]["iterations"] == 16
    assert min(hit_rates(session, last=6)) >= 0.99


def test_a_saved_plan_serves_from_the_first_iteration_on(tmp_path):
    saving = plainly_and_under_pgmo(tmp_path, "plain.py", 10, options=("--save", "plans"))
    assert saving["summary"]["recorded"] > 0
    (tmp_path / "run.json").unlink()
    plan = tmp_path / "plans" / "plain.pgmoplan"
    served = plainly_and_under_pgmo(tmp_path, "plain.py", 10, options=("--plan", plan))
    assert served["summary"]["replayed"] == 10
    assert served["summary"]["recorded"] == 0


def test_profile_only_replays_nothing_and_saves_the_profile(tmp_path):
    session = plainly_and_under_pgmo(tmp_path, "plain.py", 10, options=("--profile-only",))
    assert session["summary"]["replayed"] == 0
    assert session["summary"]["hits"] == 0
    profile = pgmo.Profile.load(tmp_path / "plain.pgmoprof")
    assert profile.steady
    assert profile.meta.model == "plain"
    assert {tag.phase for tag in profile.tags} >= {"forward", "backward", "optimizer"}


def test_the_summary_and_the_next_commands_go_to_stderr(tmp_path):
    done = run(tmp_path, "-m", "pgmo", "run", "--save", "plans", SCRIPTS / "plain.py", 10)
    assert len(done.stdout.splitlines()) == len(results(done)) == 11
    lines = done.stderr.splitlines()
    assert lines[0].startswith("pgmo: 10 iterations, ")
    assert "Wrote plans/plain.pgmoplan" in lines
    assert "Next: pgmo report plans/plain.pgmoprof --plan plans/plain.pgmoplan" in lines
    assert "      pgmo stats plans/plain.pgmoprof" in lines


def test_quiet_says_nothing(tmp_path):
    done = run(tmp_path, "-m", "pgmo", "run", "-q", SCRIPTS / "plain.py", 6)
    assert done.stderr == ""


def test_files_are_not_overwritten_unasked(tmp_path):
    (tmp_path / "plain.pgmoprof").write_text("mine")
    command = ("-m", "pgmo", "run", "--profile-only", SCRIPTS / "plain.py", 6)
    done = run(tmp_path, *command, check=False)
    assert done.returncode == 1
    assert "plain.pgmoprof exists already" in done.stderr
    assert done.stdout == ""


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


def test_a_script_with_a_session_of_its_own_keeps_it(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import pgmo, torch\n"
        "model = torch.nn.Linear(8, 8)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "with pgmo.optimize(device='cpu') as session:\n"
        "    for _ in range(8):\n"
        "        with session.iteration():\n"
        "            optimizer.zero_grad()\n"
        "            model(torch.randn(4, 8)).sum().backward()\n"
        "            optimizer.step()\n"
        "print(session.summary().iterations)\n"
    )
    done = run(tmp_path, "-m", "pgmo", "run", script)
    assert done.stdout == "8\n"
    assert "open already" in done.stderr


def test_warnings_as_errors_do_not_reach_the_script(tmp_path):
    """Iterations that are all different make the session warn."""
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


def test_processes_of_one_program_keep_their_files_apart(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        command = ("--save", "plans", "--json", "run.json", SCRIPTS / "plain.py", 8)
        done = run(tmp_path, "-m", "pgmo", "run", *command)
        assert ("8 iterations" in done.stderr) == (rank == "0")
    for rank in ("0", "1"):
        assert (tmp_path / f"run-rank{rank}.json").exists()
        assert (tmp_path / "plans" / f"plain-rank{rank}.pgmoplan").exists()


MOVING = """
import os, tempfile, torch
os.chdir(tempfile.mkdtemp(dir=os.getcwd()))
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(9):
    optimizer.zero_grad()
    model(torch.randn(4, 8)).sum().backward()
    optimizer.step()
"""


def test_files_lie_where_the_script_was_started_even_if_it_moves_elsewhere(tmp_path):
    (tmp_path / "train.py").write_text(MOVING)
    done = run(
        tmp_path, *["-m", "pgmo", "run", "--save", "plans", "--json", "run.json", "train.py"]
    )
    assert (tmp_path / "plans" / "train.pgmoplan").exists()
    assert "Wrote plans/train.pgmoplan" in done.stderr
    assert "plans/train.pgmoplan" in json.loads((tmp_path / "run.json").read_text())["saved"]
    done = run(tmp_path, *["-m", "pgmo", "run", "--plan", "plans/train.pgmoplan", "train.py"])
    assert re.search("9 iterations, [01] recorded", done.stderr)


def test_a_session_that_the_script_opens_later_takes_over(tmp_path):
    script = MOVING + (
        "import pgmo\n"
        "with pgmo.optimize(device='cpu') as session:\n"
        "    for _ in range(3):\n"
        "        model(torch.randn(4, 8)).sum().backward()\n"
        "        session.step()\n"
        "print(session.summary().iterations)\n"
    )
    (tmp_path / "train.py").write_text(script)
    done = run(tmp_path, "-m", "pgmo", "run", "train.py")
    assert done.stdout == "3\n"
    assert "the script opened a session of its own" in done.stderr


@pytest.mark.parametrize("closing", ["sys.stdout.close()", "os.close(2)", "sys.stderr.close()"])
def test_closed_streams_do_not_change_the_exit_code(tmp_path, closing):
    (tmp_path / "train.py").write_text(f"import os, sys\n{closing}\n")
    assert run(tmp_path, "-m", "pgmo", "run", "train.py").stderr.count("Traceback") == 0


@pytest.mark.parametrize("option", ["--json none/run.json", "--save train.py"])
def test_places_that_cannot_be_written_are_found_out_before_training(tmp_path, option):
    (tmp_path / "train.py").write_text("print('trained')\n")
    done = run(tmp_path, "-m", "pgmo", "run", *option.split(), "train.py", check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert option.split()[1].partition("/")[0] in done.stderr


def test_without_files_the_next_command_saves_some(tmp_path):
    (tmp_path / "train.py").write_text(MOVING)
    done = run(tmp_path, "-m", "pgmo", "run", "train.py", "two words")
    assert done.stderr.splitlines()[-1] == "Next: pgmo run --save plans train.py 'two words'"
