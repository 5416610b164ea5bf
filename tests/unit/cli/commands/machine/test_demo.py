import json
from dataclasses import replace
from pathlib import Path

import pytest

from pgmo.cli.commands.machine.demo import choose_networks
from pgmo.cli.main import main
from pgmo.demo.agreement import Agreement
from pgmo.demo.comparison_runs import DemoComparison, combine
from pgmo.demo.job import Outcome, PlanOutcome, TrainingJob
from pgmo.demo.network import NAMES
from pgmo.errors import OptionError
from pgmo.packing.plan import Plan
from pgmo.profiler.profile import Profile

pytest.importorskip("torch")


@pytest.fixture
def trained(monkeypatch):
    """Replaces the training by one that gives every network the same figures at once."""
    calls = []

    def train(network, folder, *, iterations, observer, **rest) -> DemoComparison:
        calls.append((network, rest["lengths"]))
        for run in range(3):
            observer.run(run, "testing")
            observer.step(iterations)
        planned = PlanOutcome(7, 1000, 1010, 0.01, "best_fit", 1, ("replay",), 0.99999, 1.0, "")
        outcome = Outcome((0.2,) * 20, ("0x1p+0",) * 20, "ab", 2**20, None, (1,) * 20, 2, "2.13")
        pgmo = replace(outcome, seconds=(0.1,) * 20, planned=planned)
        job, stem = TrainingJob(network, "default"), Path(folder, network)
        return combine(job, stem, outcome, pgmo, pgmo, agreed=Agreement.IDENTICAL)

    monkeypatch.setattr("pgmo.cli.commands.machine.demo.compare", train)
    return calls


def test_networks_to_train():
    assert choose_networks(None, "fixed") == NAMES
    assert choose_networks(["gpt", "unet", "gpt"], "fixed") == ("gpt", "unet")
    assert choose_networks(None, "varying") == ("gpt", "lstm")
    with pytest.raises(OptionError, match="'unet' has no sequence"):
        choose_networks(["gpt", "unet"], "varying")


def test_the_table_has_a_row_for_each_network_and_says_what_it_means(trained, tmp_path, capsys):
    assert main(["demo", "-o", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    assert trained == [(name, "fixed") for name in NAMES]
    for expected in (*NAMES, "2.00x", "1.00%", "99.99%", "the same bit for bit", "2 threads"):
        assert expected in captured.out
    assert f"Wrote {tmp_path / 'gpt.pgmoplan'}\n" in captured.err
    assert f"Next: pgmo stats {tmp_path / 'resnet.pgmoprof'}\n" in captured.err


def test_json_is_a_list_of_objects_and_nothing_else(trained, tmp_path, capsys):
    arguments = ["demo", "--network", "lstm", "--json", "-o", str(tmp_path)]
    assert main([*arguments, "--lengths", "varying"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["network"] == "lstm"
    assert row["identical"] is True
    assert trained == [("lstm", "varying")]


@pytest.mark.parametrize(
    ("agreement", "code", "sentence"),
    [
        (Agreement.DIFFERENT, 1, "DIFFER between the runs, although plain PyTorch repeats itself"),
        (Agreement.PLAIN_VARIES, 0, "Plain PyTorch does not repeat itself here"),
        (Agreement.THREADS_VARY, 0, "Some runs differ on 2 threads"),
    ],
)
def test_only_a_difference_that_plain_pytorch_lacks_fails(
    agreement, code, sentence, trained, tmp_path, monkeypatch, capsys
):
    import pgmo.cli.commands.machine.demo as module

    honest = module.compare

    def compare(network: str, *arguments, **options) -> DemoComparison:
        row = honest(network, *arguments, **options)
        return replace(row, agreement=agreement) if network == "gpt" else row

    monkeypatch.setattr(module, "compare", compare)
    networks = ["--network", "gpt", "--network", "lstm"]
    assert main(["demo", *networks, "-o", str(tmp_path)]) == code
    printed = " ".join(capsys.readouterr().out.split())
    assert sentence in printed
    assert "with and without pgmo: lstm." in printed
    assert ": gpt." in printed


@pytest.mark.parametrize(
    ("changes", "warnings"),
    [
        ({}, []),
        ({"hit_rate": 0.99, "hit_rate_saved_plan": 0.99}, []),
        ({"hit_rate": 0.98999}, ["gpt: only 98.99% of the requests were served"]),
        ({"hit_rate_saved_plan": 0.5}, ["gpt: only 50.00% of the requests from the saved plan"]),
        ({"hit_rate": None}, ["gpt: no hit rate, because no two iterations were replayed"]),
        ({"arena": 1011, "gap": 0.011}, ["gpt: the arena is 1.10% above the lower bound"]),
        ({"hit_rate": 0.1, "arena": 2000, "gap": 1.0}, ["only 10.00%", "is 100.00% above"]),
    ],
)
def test_what_falls_short_is_warned_of(changes, warnings, trained, tmp_path, monkeypatch, capsys):
    import pgmo.cli.commands.machine.demo as module

    good = module.compare
    monkeypatch.setattr(module, "compare", lambda *a, **k: replace(good(*a, **k), **changes))
    assert main(["demo", "--network", "gpt", "-o", str(tmp_path), "--json"]) == 0
    captured = capsys.readouterr()
    told = [line for line in captured.err.splitlines() if line.startswith("Warning: ")]
    assert len(told) == len(warnings)
    for line, warning in zip(told, warnings, strict=True):
        assert warning in line
    assert len(json.loads(captured.out)) == 1


def test_everything_in_the_table_is_in_the_json(trained, tmp_path, capsys):
    assert main(["demo", "--network", "gpt", "-o", str(tmp_path), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    table = ("network", "blocks", "arena", "gap", "hit_rate", "speedup", "identical", "iterations")
    steps = ("step_seconds_default", "step_seconds_pgmo")
    memory = ("rss_default", "rss_pgmo", "rss_pgmo_saved_plan")
    assert row.keys() >= {*table, *steps, *memory, "torch", "threads", "replans"}
    assert row["speedup"] == 2


@pytest.mark.parametrize("below", ["", "sub/folder"])
def test_an_output_that_is_a_file_is_one_clean_message(below, tmp_path, capsys):
    (tmp_path / "taken").touch()
    output = tmp_path / "taken" / below
    assert main(["demo", "--network", "lstm", "-o", str(output)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"pgmo demo: {output}: cannot be made a folder (" in captured.err
    assert "Traceback" not in captured.err


def test_old_results_are_refused_before_anything_trains(trained, tmp_path, capsys):
    (tmp_path / "lstm.pgmoplan").touch()
    assert main(["demo", "-o", str(tmp_path)]) == 1
    assert "lstm.pgmoplan exists already; pass --force" in capsys.readouterr().err
    assert trained == []
    assert main(["demo", "-o", str(tmp_path), "--force"]) == 0


@pytest.mark.parametrize("option", [["--iterations", "0"], ["--threads", "-1"]])
def test_silly_numbers_are_refused(option, tmp_path, capsys):
    assert main(["demo", *option, "-o", str(tmp_path)]) == 2
    assert f"{option[0]} must be" in capsys.readouterr().err


def test_without_torch_it_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["demo"]) == 1
    assert "pip install torch" in capsys.readouterr().err


@pytest.mark.slow
def test_a_saved_plan_reaches_the_same_hits_in_a_process_of_its_own(tmp_path, capsys):
    arguments = ["demo", "--network", "lstm", "--iterations", "10"]
    assert main([*arguments, "--json", "-o", str(tmp_path)]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["identical"] is True
    for rate in ("hit_rate", "hit_rate_saved_plan"):
        assert row[rate] >= 0.99
    for rate in ("hit_bytes_rate", "hit_bytes_rate_saved_plan"):
        assert row[rate] >= 0.999
    profile, plan = Profile.load(row["profile"]), Plan.load(row["plan"])
    assert len(profile) == len(plan) == row["blocks"]
    assert plan.fingerprint == profile.fingerprint
    assert (plan.arena, plan.max_load, plan.gap) == (row["arena"], row["max_load"], row["gap"])
