"""Tests of commands on recordings of other tools, and of `pgmo export --to profile`."""

import json
import pickle

import pytest

from pgmo.cli.main import main
from pgmo.profiler.importers.formats import read_file
from pgmo.profiler.profile import Profile
from pgmo.profiler.trace_blocks import live_peak
from pgmo.units import format_bytes
from tests.unit.profiler.importers.snapshots import MIB, Device, save, snapshot, train


@pytest.fixture
def source(tmp_path):
    device = Device()
    train(device, 5)
    device.out_of_memory(2**33)
    return save(snapshot(device), tmp_path / "run.pickle")


def export(*words) -> int:
    return main(["export", "--to", "profile", *map(str, words)])


def test_a_snapshot_goes_through_all_commands(source, tmp_path, capsys, run):
    out, err = run("stats", source)
    assert "found by their period" not in err  # the result says it already
    assert "iterations  6 with 9 requests each, found by their period" in out.replace("5 w", "6 w")
    assert "out of memory 8.00 GiB with 0 B free on the device" in out
    peak = format_bytes(live_peak(read_file(source)[0].trace))
    assert f"live peak   {peak} of all blocks in the recording" in out
    reserved = sum(
        segment["total_size"] for segment in pickle.loads(source.read_bytes())["segments"]
    )
    assert f"reserved    {format_bytes(reserved)} at most" in out
    assert main(["plan", str(source)]) == 0
    assert main(["report", str(source)]) == 0
    assert main(["compare", str(source)]) == 0
    assert main(["check", str(source.with_suffix(".pgmoplan")), str(source)]) == 0
    assert "There is no" not in capsys.readouterr().err  # the report found the plan


def test_a_profile_of_a_snapshot(source, tmp_path, capsys):
    assert export(source) == 0
    profile = tmp_path / "run.pgmoprof"
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith(f"Wrote {profile}\nNext: pgmo plan {profile}\n")
    assert "Note: iterations: 5 with 9 requests each, found by their period" in err
    loaded = Profile.load(profile)
    assert (loaded.meta.device, loaded.trace.requests, loaded.circular) == ("cuda:0", 49, True)


def test_json(source, tmp_path, capsys):
    target = tmp_path / "other.pgmoprof"
    assert export(source, "-o", target, "--json") == 0
    (reported,) = json.loads(capsys.readouterr().out)["profiles"]
    assert (reported["file"], reported["device"]) == (str(target), "cuda:0")
    assert reported["blocks"] == len(Profile.load(target))


def test_the_output_is_checked_before_the_recording_is_read(tmp_path, capsys):
    (tmp_path / "none.pgmoprof").touch()
    assert export(tmp_path / "none.pickle") == 1
    assert "exists already" in capsys.readouterr().err


def test_a_file_for_each_device(tmp_path, capsys):
    devices = Device(0), Device(1)
    train(devices[0], 3)
    train(devices[1], 4)
    source = save(snapshot(*devices), tmp_path / "two.pickle")
    assert export(source) == 0
    assert Profile.load(tmp_path / "two.0.pgmoprof").trace.device == 0
    assert Profile.load(tmp_path / "two.1.pgmoprof").trace.device == 1
    assert not (tmp_path / "two.pgmoprof").exists()
    assert export(source, "--device", "1") == 0
    assert Profile.load(tmp_path / "two.pgmoprof").trace.device == 1
    assert export(source, "--device", "5", "--force") == 1
    assert "choose from 0, 1" in capsys.readouterr().err
    assert main(["stats", str(source)]) == 1
    assert f"cuda:0, cuda:1: export a profile of each with `pgmo export {source} --to" in (
        capsys.readouterr().err
    )


def test_a_table(tmp_path, capsys, printed):
    source = tmp_path / "blocks.csv"
    source.write_text("id,lower,upper,size\n0,0,10,64\n1,5,20,32\n")
    assert export(source) == 0
    assert Profile.load(tmp_path / "blocks.pgmoprof").max_load() == 96
    assert "blocks      2 in 2 ticks" in printed("stats", source)
    assert export(source, "--iteration", "0", "--force") != 0
    assert "is a table of blocks without iterations" in capsys.readouterr().err
    assert export(source, "--whole", "--force") == 0


def test_a_malicious_pickle_is_one_message(tmp_path, capsys):
    source = tmp_path / "evil.pickle"
    source.write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    assert export(source) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"pgmo export: {source}: asks for the global 'os.system'; ")
    assert not (tmp_path / "evil.pgmoprof").exists()


def test_a_log_without_requests(tmp_path, capsys):
    source = tmp_path / "log.csv"
    source.write_text("Thread,Time,Action,Pointer,Size,Stream\n")
    assert export(source) == 1
    assert "has no allocation in its 0 events on cuda:0" in capsys.readouterr().err


def test_the_whole_or_one_iteration(source, tmp_path, capsys):
    made = tmp_path / "run.pgmoprof"
    assert export(source, "--whole") == 0
    assert (
        "Note: iterations: none, by choice; all 49 requests as one sequence"
        in capsys.readouterr().err
    )
    assert not Profile.load(made).circular
    assert export(source, "--iteration", "2", "--force") == 0
    assert "with 9 requests each, number 2, chosen by hand" in capsys.readouterr().err
    assert Profile.load(made).circular
    with pytest.raises(SystemExit, match="2"):
        export(source, "--iteration", "2", "--whole", "--force")
    capsys.readouterr()
    assert export(source, "--iteration", "77", "--force") != 0
    assert "iteration 77 is not in the recording" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options",
    [
        ["--to", "csv", "--device", "0"],
        ["--to", "csv", "--whole"],
    ],
)
def test_options_of_another_format_are_refused(options, source, capsys):
    assert main(["export", str(source), *options]) == 2
    assert f"leave them out with --to {options[1]}" in capsys.readouterr().err


def test_private_pools_are_explained_by_stats_report_and_export(tmp_path, capsys, reported):
    device = Device()
    device.free(device.alloc(8 * MIB, stream=7))
    device.alloc(2 * MIB)
    saved = snapshot(device)
    saved["segments"][0]["segment_pool_id"] = (1, 0)
    source = save(saved, tmp_path / "graphs.pickle")
    expected = (
        "pools       8.00 MiB in 1 private pool of graphs or MemPools, 0 B of it alive; 8.00 MiB"
    )
    for command in (["stats"], ["report"], ["export", "--to", "profile"]):
        assert main([*command, str(source)]) == 0
        assert expected in "".join(capsys.readouterr())
    for command in (["stats"], ["report", "--force"]):
        pools = reported(*command, source.with_suffix(".pgmoprof"))["pools"]
        assert [one["temporaries"] for one in pools["pools"]] == [8 * MIB]
