import json

import pytest

from pgmo.cli.main import main

pytest.importorskip("torch")

FACTORY = """
import torch
from torch import nn

def example():
    layers = [layer for _ in range(6) for layer in (nn.Linear(16, 16), nn.Sigmoid(), nn.GELU())]
    return nn.Sequential(*layers), torch.ones(256, 16)

def lonely():
    return nn.Linear(2, 2)
"""


@pytest.fixture(autouse=True)
def factory(tmp_path, monkeypatch):
    (tmp_path / "some_factory.py").write_text(FACTORY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_the_plan_is_explained_with_the_call_that_makes_it(capsys):
    assert main(["recompute", "some_factory:example"]) == 0
    printed = capsys.readouterr().out
    assert "without recomputation" in printed
    assert "pgmo.recompute(model, inputs, budget=" in printed


def test_json_has_the_numbers_and_the_curve(capsys, factory):
    pytest.importorskip("matplotlib")
    words = ["recompute", "some_factory:example", "--json", "--picture", "curve.png"]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["peak"] < found["default_peak"] == found["curve"][-1]["peak"]
    assert (factory / "curve.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("some_factory", "is no MODULE:FACTORY"),
        ("some_factory:nothing", "cannot find some_factory:nothing"),
        ("no_such_module:example", "cannot find no_such_module:example"),
        ("some_factory:lonely", "returned Linear"),
    ],
)
def test_a_factory_that_is_none(capsys, name, message):
    assert main(["recompute", name]) != 0
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_budget_that_cannot_be_met(capsys):
    assert main(["recompute", "some_factory:example", "--budget", "1KiB"]) != 0
    assert "least peak" in " ".join(capsys.readouterr().err.split())
