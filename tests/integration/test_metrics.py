"""Tests of figures for dashboards: in a loop, in text files, and for each rank."""

import json

import pytest

import pgmo
from pgmo.errors import FileError, OptionError

torch = pytest.importorskip("torch")

NAMES = ["peak_live", "reserved", "stuck", "retries", "from_plan", "growth"]


def train(steps, after_step):
    net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 8))
    optimizer = torch.optim.Adam(net.parameters())
    with pgmo.optimize(device="cpu") as session:
        for step in range(1, steps + 1):
            net(torch.ones(32, 64)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            session.step()
            after_step(step)
    return session


def test_figures_of_a_loop():
    found = []
    train(14, lambda step: found.append(pgmo.metrics("cpu")))
    assert all(list(one) == [f"pgmo/{name}" for name in NAMES] for one in found)
    first, last = found[0], found[-1]
    assert first["pgmo/from_plan"] == 0
    assert last["pgmo/from_plan"] == 1
    assert last["pgmo/peak_live"] > 0
    assert last["pgmo/reserved"] > 0
    assert last["pgmo/stuck"] == max(0, last["pgmo/reserved"] - last["pgmo/peak_live"])
    assert (last["pgmo/growth"], last["pgmo/retries"]) == (0, 0)
    assert pgmo.metrics("cpu") == {}  # the session is closed


def test_growth_is_one_of_the_figures():
    kept, found = [], []

    def after_step(step):
        kept.append(torch.ones(1 << 20, dtype=torch.uint8))
        found.append(pgmo.metrics("cpu")["pgmo/growth"])

    train(24, after_step)
    assert found[4] == 0
    assert found[-1] == pytest.approx(1 << 20, rel=0.05)


def test_a_line_in_every_so_many_steps(tmp_path):
    path = tmp_path / "pgmo.jsonl"
    train(12, lambda step: pgmo.log_metrics(path, step, every=5, device="cpu"))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [one["step"] for one in lines] == [5, 10]
    assert all(set(one) == {"step", "time", *(f"pgmo/{name}" for name in NAMES)} for one in lines)


def test_a_file_for_prometheus(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    train(12, lambda step: pgmo.log_metrics(tmp_path / "pgmo.prom", step, device="cpu"))
    assert [one.name for one in tmp_path.iterdir()] == ["pgmo-3.prom"]
    lines = (tmp_path / "pgmo-3.prom").read_text().splitlines()
    assert len(lines) == 3 * len(NAMES)
    assert lines[-1].startswith('pgmo_growth_bytes_per_iteration{rank="3"} ')
    values = dict(line.split(" ") for line in lines if not line.startswith("#"))
    assert float(values['pgmo_from_plan_ratio{rank="3"}']) == 1
    assert "# TYPE pgmo_retries_total counter" in lines


@pytest.mark.parametrize(
    ("name", "every", "error"),
    [("pgmo.txt", 1, OptionError), ("pgmo.jsonl", 0, OptionError), ("no/a.jsonl", 1, FileError)],
)
def test_invalid_metrics_files_and_intervals_are_errors(tmp_path, name, every, error):
    with pytest.raises(error):
        train(2, lambda step: pgmo.log_metrics(tmp_path / name, step, every=every, device="cpu"))
