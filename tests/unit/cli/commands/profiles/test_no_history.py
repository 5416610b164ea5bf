"""Tests of commands on snapshots without a history, of which each first reports that."""

import pytest

from pgmo.cli.main import main
from pgmo.profiler.importers.formats import read_file
from pgmo.profiler.iterations.from_trace import profile_of
from pgmo.report.findings.moment import find_moment
from pgmo.units import format_bytes
from tests.unit.profiler.importers.snapshots import (
    MIB,
    OPTIMIZER,
    Device,
    live_at_end,
    save,
    snapshot,
    train,
)

FIRST = "The file has no history of requests"
HOW = "call torch.cuda.memory._record_memory_history() before the work"


def without_history(device):
    return snapshot(device) | {"device_traces": [[]]}


@pytest.fixture
def source(tmp_path):
    device = Device()
    train(device, 2)
    device.alloc(30 * MIB, frames=OPTIMIZER)
    saved = without_history(device)
    path = save(saved, tmp_path / "run.pickle")
    return path, live_at_end(snapshot(device))


def test_an_export_says_what_was_allocated(source, run):
    path, alive = source
    err = run("export", path, "--to", "profile").err
    assert FIRST in err
    assert HOW in err
    size = format_bytes(sum(alive.values()))
    assert f"{size} in {len(alive)} blocks; " in err
    assert " reserved, largest hole " in err
    assert err.endswith(f"Next: pgmo stats {path.with_suffix('.pgmoprof')} --by file\n")


@pytest.mark.parametrize(
    "command",
    [
        ("compare",),
        ("stats", "--leaks"),
        ("stats", "--at-peak"),
        ("stats", "--by", "file"),
        ("stats",),
    ],
    ids=" ".join,
)
def test_commands_say_it_first(source, command, printed):
    profile, alive = source
    out = printed(command[0], profile, *command[1:])
    assert out.startswith(FIRST)
    assert HOW in out.splitlines()[1]
    assert f" in {len(alive)} blocks; " in out
    for false in ("max load", "optimal", "leaks       none", "0 iterations", " 0 B,", "tick 0"):
        assert false not in out
    if command[0] == "stats" and "--leaks" not in command:
        assert "train.py:15 in <module>" in out
        assert format_bytes(30 * MIB) in out


def test_there_is_no_plan(source, tmp_path, refused):
    profile, _ = source
    assert f"there is nothing to plan. {FIRST}" in refused("plan", profile)
    assert not profile.with_suffix(".pgmoplan").exists()


def test_json_says_it_too(source, reported):
    profile, alive = source
    for command in ("compare", "stats"):
        fields = reported(command, profile)
        assert fields["moment"]["size"] == sum(alive.values())
        assert fields["moment"]["blocks"] == len(alive)
    fields = reported("compare", profile)
    assert (fields["plan"], fields["max_load"], fields["reserved"]) == (None, None, {})


def test_two_are_compared_by_what_was_allocated(source, printed, reported):
    profile, _ = source
    out = printed("compare", profile, profile)
    assert out.startswith(f"{profile}: {FIRST}")
    assert "The requests cannot be compared" in out
    assert "max load" not in out
    fields = reported("compare", profile, profile)
    assert fields["before"]["max_load"] is None
    assert fields["moments"][0]["blocks"] > 0


def test_the_report_says_it_first(source, tmp_path):
    profile, alive = source
    assert main(["report", str(profile)]) == 0
    page = profile.with_suffix(".html").read_text()
    headline = page[page.index('class="headline"') :]
    assert headline[headline.index("<p>") + 3 :].startswith(FIRST)
    assert "as much as PyTorch" not in page
    cards = page[page.index('<dl class="cards"') : page.index("</dl>")]
    assert "Max load" not in cards
    assert f"in {len(alive)} blocks" in page


@pytest.mark.parametrize("empty", [0, 1])
def test_a_device_on_which_nothing_was_allocated_is_left_out(tmp_path, capsys, empty, run):
    devices = [Device(0), Device(1)]
    train(devices[1 - empty], 3)
    saved = snapshot(*devices)
    saved["device_traces"][empty] = [
        {"action": "snapshot", "addr": 0, "size": 0, "stream": 0, "frames": [], "time_us": 1}
    ]
    saved["segments"].append(
        {"device": empty, "address": 2**50, "total_size": 2 * MIB, "stream": 0, "blocks": []}
    )
    path = save(saved, tmp_path / "two.pickle")
    err = run("export", "--to", "profile", path).err
    assert f"cuda:{empty}: nothing was allocated there, so it has no profile" in err
    assert [one.name for one in tmp_path.glob("*.pgmoprof")] == ["two.pgmoprof"]
    assert main(["export", "--to", "profile", str(path), "--device", str(empty), "-f"]) == 1
    assert "has no allocation in its 0 events" in capsys.readouterr().err


def test_events_of_segments_alone_are_no_history(tmp_path):
    device = Device()
    device.alloc(3 * MIB)
    saved = snapshot(device)
    saved["device_traces"][0] = [
        event for event in device.events if event["action"] == "segment_alloc"
    ]
    trace = read_file(save(saved, tmp_path / "a.pickle"))[0].trace
    assert len(trace) > trace.before
    moment = find_moment(profile_of(trace))
    assert (moment.size, moment.blocks, moment.reserved) == (3 * MIB, 1, 4 * MIB)
    saved["device_traces"][0] = device.events
    trace = read_file(save(saved, tmp_path / "b.pickle"))[0].trace
    assert find_moment(profile_of(trace)) is None
