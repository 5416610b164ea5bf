"""Tests of `pgmo.fit` with scripts and functions, and of the arguments that it refuses."""

import os
from pathlib import Path

import pytest

import pgmo
from pgmo.errors import OptionError, RehearsalError
from pgmo.fit.evidence import Job
from tests.unit.fit.answers import pretend


def step(batch: int) -> None:
    """Take one optimizer step."""


def test_a_script_is_a_text_a_path_or_words(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch)
    for script in ("train.py --epochs 3", ["train.py", "--epochs", "3"], Path("train.py")):
        found = pgmo.fit(script, card="16GiB", vary="--batch-size {}", prove=False)
        assert found.name == "train.py"
        assert found.batch > 100


def test_a_function_is_called_with_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch)
    assert pgmo.fit(step, card="1GiB").batch == pgmo.fit("a.py", card="1GiB", vary="-b {}").batch


def test_a_function_inside_of_another_is_refused() -> None:
    def local(batch: int) -> None:
        """Take one optimizer step."""

    with pytest.raises(OptionError, match="top level of a module"):
        pgmo.fit(local, card="16GiB")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"batch": 4}, "needs the option that sets it"),
        ({"vary": "--batch-size"}, "has no {}"),
        ({"effective_batch": 8}, "give vary="),
        ({"effective_batch": 0, "vary": "--batch {}"}, "give a number above 0"),
        ({"card": "RTX 9999"}, "no card is called"),
    ],
)
def test_questions_that_cannot_be_asked(options: dict[str, object], match: str) -> None:
    with pytest.raises(OptionError, match=match.replace("{", r"\{")):
        pgmo.fit("train.py", **options)  # type: ignore[arg-type]


def test_without_a_cuda_build_of_torch_it_names_what_installs_one(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("")
    with pytest.raises(RehearsalError, match="pgmo fit --environment"):
        pgmo.fit(os.fspath(script), card="16GiB", python="/usr/bin/python3")


def test_a_job_says_its_value_by_option_or_variable() -> None:
    assert Job(("a.py",), vary="-b {}").at(3) == ("a.py", "-b", "3")
    job = Job(("a.py",), variable="BATCH")
    assert (job.at(3), job.environment(3)) == (("a.py",), {"BATCH": "3"})
    assert Job(("a.py",)).at(None) == ("a.py",)
