"""Tests of `pgmo fit`: its output, its exit codes, and command lines that it refuses."""

from pathlib import Path

import pytest

from pgmo.cli.main import main
from tests.unit.fit.answers import pretend


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return an empty script, whose rehearsals yield the history of a simulated loop."""
    pretend(monkeypatch)
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("")
    return "train.py"


VARY = ("--vary", "--batch-size {}")


def test_a_sentence_comes_first_and_the_code_is_0(script: str, printed) -> None:
    shown = printed("fit", "--card", "1GiB", *VARY, "--value", "4", script)
    assert shown.startswith("train.py fits on 1.00 GiB: it takes ")
    for text in ("PyTorch as it is", "optimizer state", "CUDA context", "rehearsed   once"):
        assert text in shown


def test_a_job_that_does_not_fit_is_code_4(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "--card", "400MiB", *VARY, "--value", "16", script]) == 4
    assert "does not fit" in capsys.readouterr().out


def test_everything_can_be_asked_at_once(script: str, run) -> None:
    words = ["--what-if", "--cards", "--effective-batch", "64", "--samples", "1e6"]
    out, messages = run("fit", "--card", "L4", *VARY, *words, "--report", "fit.html", script)
    for text in ("8-bit Adam", "least change that fits", "H100 SXM", "micro-batches of"):
        assert text in out
    assert "at least" in out
    assert "Wrote fit.html" in messages
    assert Path("fit.html").read_text().startswith("<!doctype html>")


def test_json_is_one_object(script: str, reported) -> None:
    fields = reported("fit", "--card", "1GiB", *VARY, "--also", "checkpoint", script)
    assert [one["change"] for one in fields["largest"]] == [None, None, "checkpoint"]
    assert fields["fits"]["pgmo"] is True


def test_a_measured_step_makes_a_forecast(script: str, printed) -> None:
    words = ["--value", "4", "--steps", "100", "--measured", "60@L4"]
    assert "about 100 minutes on L4" in printed("fit", "--card", "L4", *VARY, *words, script)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--value", "4"], "--value needs --vary"),
        (["--effective-batch", "4"], "--effective-batch needs --vary"),
        (["--learn", "2,x"], "not a list of whole numbers above 0"),
        ([*VARY, "--learn", "4"], "two different values"),
        (["--measured", "fast@L4"], "0.41@RTX 3090"),
    ],
)
def test_wrong_options_are_code_2(
    script: str, words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fit", *words, script]) == 2
    assert complaint in capsys.readouterr().err


def test_a_report_is_not_overwritten(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("fit.html").write_text("mine")
    words = ["fit", "--card", "1GiB", *VARY, "--value", "4", "--report", "fit.html"]
    assert main([*words, script]) == 1
    assert Path("fit.html").read_text() == "mine"
    assert "--force" in capsys.readouterr().err
    assert main([*words, "--force", script]) == 0


def test_a_script_that_is_not_there(script: str, refused) -> None:
    assert "there is no file none.py" in refused("fit", "--card", "1GiB", "none.py")
