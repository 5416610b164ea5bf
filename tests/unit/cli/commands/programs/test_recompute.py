"""Tests of `pgmo recompute` on a model that a file makes."""

import json

import pytest

from pgmo.cli.main import main
from pgmo.profiler.profile import Profile

MODEL = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        layers = (nn.Sequential(nn.Linear(32, 32), nn.Tanh()) for _ in range(6))
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return self.layers(x).square().mean()


def make():
    return Net(), torch.randn(512, 32)


def make_nothing():
    return Net()


def fail():
    raise KeyError("where is it")


def leave():
    raise SystemExit(3)


def chat():
    print("loading")
    return make()


number = 3
"""


@pytest.fixture
def model(tmp_path):
    pytest.importorskip("torch")
    path = tmp_path / "net_to_recompute.py"
    path.write_text(MODEL)
    return path


def test_a_share_of_the_peak_is_kept_to_and_the_profile_shows_what_runs_again(
    model, tmp_path, reported, run
):
    target = tmp_path / "step.pgmoprof"
    shown = run("recompute", f"{model}:make", "--budget", "0.7", "-o", target)
    assert "operations of the forward pass run twice" in shown.out
    assert "layers." in shown.out
    assert "pgmo.recompute(model, inputs, budget=" in shown.out
    assert shown.err == f"Wrote {target}\nNext: pgmo report {target}\n"
    profile = Profile.load(target)
    assert "recompute" in {tag.phase for tag in profile.tags}
    assert {tag.module.split(".")[0] for tag in profile.tags if tag.module} == {"Net"}
    fields = reported("recompute", f"{model}:make", "--budget", "70%")
    assert fields["peak"] == profile.max_load() <= 0.7 * fields["default_peak"]
    assert fields["recomputed"]
    assert fields["curve"] is None


def test_bytes_the_least_peak_and_the_whole_trade_off(model, reported):
    least = reported("recompute", f"{model}:make", "--points", "3")
    peaks = [point["peak"] for point in least["curve"]]
    assert peaks
    assert max(peaks) <= least["default_peak"]  # the model itself may need more than its graph
    assert least["peak"] in peaks
    whole = reported("recompute", f"{model}:make", "--budget", "1GiB")
    assert whole["default_peak"] >= whole["peak"] > least["peak"]
    assert whole["overhead"] == 0


def test_a_module_on_the_path_and_the_next_command(model, monkeypatch, run):
    monkeypatch.chdir(model.parent)
    shown = run("recompute", "net_to_recompute:make")
    assert shown.err == (
        "Next: pgmo recompute net_to_recompute:make --budget min -o step.pgmoprof\n"
    )


def test_values_wait_on_the_host_and_both_commands_that_are_said_plan_the_same(
    model, monkeypatch, reported, run
):
    monkeypatch.chdir(model.parent)
    asked = ["--budget", "0.6", "--offload", "1e12"]
    fields = reported("recompute", "net_to_recompute:make", *asked)
    assert fields["offloaded"]
    assert fields["host_bytes"] > 0
    assert fields["overhead"] == pytest.approx(fields["rerun"] + fields["waited"])
    shown = run("recompute", "net_to_recompute:make", *asked)
    assert "operations are offloaded" in shown.out
    assert f"budget={fields['peak']}, offload=1000000000000.0)" in shown.out
    assert shown.err == (
        f"Next: pgmo recompute net_to_recompute:make {' '.join(asked)} -o step.pgmoprof\n"
    )


def test_output_of_the_factory_is_not_in_the_object(model, run):
    printed = run("recompute", f"{model}:chat", "--budget", "1GiB", "--json")
    assert json.loads(printed.out)["overhead"] == 0
    assert "loading" in printed.err


@pytest.mark.parametrize(
    ("function", "options", "code", "message"),
    [
        ("make", ["--budget", "1KiB"], 1, "no recomputation was found that keeps the step within"),
        ("make", ["--points", "1"], 2, "--points is 1"),
        ("make", ["-o", "step.txt"], 2, "the suffix is not .pgmoprof"),
        ("make", ["-o", "no/such/step.pgmoprof"], 1, "there is no folder"),
        ("make_nothing", [], 1, "returned a Net; it must return a tuple"),
        ("fail", [], 1, "raised KeyError: 'where is it' (net_to_recompute.py:"),
        ("leave", [], 1, "raised SystemExit: 3 (net_to_recompute.py:"),
        ("number", [], 1, "has no function 'number'"),
        ("none", [], 1, "has no function 'none'"),
    ],
)
def test_errors_have_their_exit_code_and_message(model, capsys, function, options, code, message):
    assert main(["recompute", f"{model}:{function}", *options]) == code
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("name", ["nothing", "no_such_module_at_all:make", "none.py:make"])
def test_missing_factories_are_refused(name, refused):
    pytest.importorskip("torch")
    assert "FILE.py:FACTORY" in refused("recompute", name)
