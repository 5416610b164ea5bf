"""Tests of the files that `pgmo run` writes and reads, and of its messages about them."""

import json
import re

import pytest

import pgmo
from tests.integration.running import MOVING, SCRIPTS, plainly_and_under_pgmo, results, run

pytest.importorskip("torch")


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
    assert ("Sequential.0", "aten.addmm") in {(tag.module, tag.op) for tag in profile.tags}


def test_the_summary_and_the_next_commands_go_to_stderr(tmp_path):
    done = run(tmp_path, "-m", "pgmo", "run", "--save", "plans", SCRIPTS / "plain.py", 10)
    assert len(done.stdout.splitlines()) == len(results(done)) == 11
    lines = done.stderr.splitlines()
    assert re.match("pgmo: live bytes in slots peaked at .*; their arena takes ", lines[0])
    assert any("10 iterations, " in line for line in lines)
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


def test_processes_of_one_program_share_a_directory_of_plans(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        files = ("--plan", "plans", "--save", "plans", "--json", "run.json")
        done = run(tmp_path, "-m", "pgmo", "run", *files, SCRIPTS / "plain.py", 8)
        assert ("8 iterations" in done.stderr) == (rank == "0")
        assert ("Wrote" in done.stderr) == (rank == "0")
        assert ("pgmo run --plan plans " in done.stderr) == (rank == "0")
    reports = [json.loads((tmp_path / f"run-rank{rank}.json").read_text()) for rank in "01"]
    first, second = (one["sessions"][0]["summary"] for one in reports)
    assert first["recorded"] > second["recorded"]  # the second run began with plans of the first
    assert "which has 100.0% of the last iteration's requests" in second["notes"][0]
    plans = list((tmp_path / "plans").glob("*.pgmoplan"))
    assert len(plans) == 1
    shown = json.loads(run(tmp_path, "-m", "pgmo", "stats", "--json", ".").stdout)
    assert [one["rank"] for one in shown["ranks"]] == [0, 1]
    assert all(one["peak_live"] > 0 and one["device"] == "cpu" for one in shown["ranks"])


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


ENDINGS = {
    "an exception": ("raise ValueError('trouble')", 1),
    "an exit code": ("raise SystemExit(4)", 4),
    "Ctrl-C": ("raise KeyboardInterrupt", 130),
    "a give-up": ("import pgmo\nwith pgmo.optimize(): pass", 0),
}


@pytest.mark.parametrize("case", ENDINGS)
def test_after_trouble_there_is_no_advice_to_run_it_again(tmp_path, case):
    ending, code = ENDINGS[case]
    (tmp_path / "train.py").write_text(f"{MOVING}{ending}\n")
    done = run(tmp_path, "-m", "pgmo", "run", "train.py", check=False)
    assert done.returncode == code
    assert "9 iterations, " in done.stderr
    assert ("its own session, which serves it" in done.stderr) == (case == "a give-up")
    assert "continued without a session" not in done.stderr
    assert "Next:" not in done.stderr
    done = run(tmp_path, "-m", "pgmo", "run", "--save", "plans", "train.py", check=False)
    assert "Wrote plans/train.pgmoplan" in done.stderr
    assert "Next: pgmo report plans/train.pgmoprof" in done.stderr
    assert "pgmo run" not in done.stderr
