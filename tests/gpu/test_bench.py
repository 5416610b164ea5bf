"""Quick runs of every benchmark that needs a GPU, whose figures are not representative."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gpu.device import STUB, why_not_cupy

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "bench" / "gpu"
OURS = ("pages", "pgmo", "pgmo_saved_plan")


def quick(name, tmp_path):
    """Run a benchmark with --quick, and return its result."""
    output = tmp_path / f"{name}.json"
    command = [sys.executable, str(FOLDER / f"{name}.py"), "--quick", "--output", str(output)]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(output.read_text())
    assert found["benchmark"] == f"gpu/{name}"
    assert found["quick"]
    return found


def test_every_benchmark_is_run():
    tests = Path(__file__).read_text()
    names = sorted(path.stem for path in FOLDER.glob("[!_]*.py"))
    assert [name for name in names if f'"{name}"' not in tests] == []


@pytest.mark.slow  # test_largest_batches starts the same workers
def test_memory(tmp_path):
    found = quick("memory", tmp_path)
    (entry,) = found["entries"]
    assert not entry["errors"]
    rows = {row["contender"]: row for row in entry["rows"]}
    assert list(rows) == ["default", "expandable", "pages", "pgmo", "pgmo_saved_plan"]
    for contender, row in rows.items():
        assert 0 < row["reserved_steady"] <= row["reserved"]
        assert row["cpu_over_default"] > 0
        assert ("waits" in row) == (contender in OURS)
        assert ("requests_that_map" in row) == (contender in OURS)
        assert ("replay" in row["phases"]) == contender.startswith("pgmo")


@pytest.mark.slow
def test_ranks(tmp_path):
    entries = quick("ranks", tmp_path)["entries"]
    assert [one["engine"] for one in entries][:2] == ["ddp", "fsdp2"]
    for entry in entries:
        assert not entry["errors"]
        assert [row["contender"] for row in entry["rows"]] == ["default", "expandable", "pgmo"]
        assert all(0 < row["reserved_steady"] <= row["reserved"] for row in entry["rows"])
        assert set(entry["rows"][-1]["phases"]) <= {"replay", "backoff"}


def test_largest_batches(tmp_path):
    entries = quick("largest_batch", tmp_path)["entries"]
    assert [one["contender"] for one in entries] == ["default", "pgmo", "pages"]
    for one in entries:
        assert not one["errors"]
        assert 0 < one["largest"] <= one["bound"]
        assert one["samples_per_second"] > 0
        assert ("waits" in one["costs"]) == (one["contender"] in OURS)
    assert len({one["bound"] for one in entries}) == 1
    assert "replay" in entries[1]["phases"]


@pytest.mark.slow
def test_overhead(tmp_path):
    found = quick("overhead", tmp_path)
    rows = found["rows"]
    measured = {(row["what"], row["allocator"]) for row in rows}
    for what in ("C++, at once", "C++, 64 live", "torch.empty"):
        assert {(what, who) for who in ("default", "plugin", "pages", "pgmo")} <= measured
    assert {("step", who) for who in ("default", "pages", "pgmo", "record")} <= measured
    assert found["pages_per_step"]["maps"] == found["pages_per_step"]["waits"] == 0
    assert all(row["median"] > 0 for row in rows)


@pytest.mark.slow
def test_recompute(tmp_path):
    rows = quick("recompute", tmp_path)["rows"]
    assert [(row["way"], bool(row["limit"])) for row in rows] == [
        ("plain", False),
        ("pgmo", False),
        ("pgmo", True),
    ]
    plain, ours, search = rows
    assert plain["allocated"] > 0
    assert ours["predicted"] < ours["default_predicted"]
    assert search["largest_batch"] > 0


@pytest.mark.slow
def test_real_programs(tmp_path):
    (entry,) = quick("real_programs", tmp_path)["entries"]
    assert not entry["errors"]
    assert entry["program"] == "nanogpt"
    contenders = ["default", "default again", "expandable", "pages", "pgmo_run"]
    assert [row["contender"] for row in entry["rows"]] == contenders
    for row in entry["rows"]:
        assert 0 < row["live"] <= row["reserved"]
        assert row["cpu_over_default"] > 0
        assert ("waits" in row) == (row["contender"] in ("pages", "pgmo_run"))


@pytest.mark.slow
def test_rehearsals(tmp_path):
    pytest.importorskip("transformers")
    (row,) = quick("rehearsals", tmp_path)["rows"]
    assert not row["errors"]
    # Outside of a rehearsal, the stub computes no values, so the model builds an unnecessary mask.
    # The plan of the rehearsal has no slots for that mask.
    for which in ("allocated", "reserved"):
        assert row["rehearsed"][which] == pytest.approx(row["card"][which], rel=0.01)
    last = row["with_the_plan"][-1]
    mask_requests = 25 if STUB else 0
    assert last["hits"] + mask_requests == last["requests"]


@pytest.mark.skipif(STUB, reason="the stub computes nothing, so pages are not moved")
def test_managed_memory(tmp_path):
    found = quick("managed_memory", tmp_path)
    assert {"device", "managed", "half spilled"} <= found["seconds_per_step"].keys()
    assert 0 < found["bytes"]["spilled"] < found["bytes"]["arena"]


@pytest.mark.skipif(bool(why_not_cupy()), reason=why_not_cupy() or "-")
def test_cupy_loops(tmp_path):
    figures = quick("cupy_loops", tmp_path)["figures"]
    assert figures
    for by_pool in figures.values():
        assert "pgmo" in by_pool
        assert all(row["seconds_per_step"] > 0 for row in by_pool.values())
