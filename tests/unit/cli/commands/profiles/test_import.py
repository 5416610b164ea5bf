"""`pgmo import`: files in, profiles out."""

import json
import pickle

import pytest

from pgmo.cli.main import main
from pgmo.packing.plan import Plan
from pgmo.profiler.profile import Profile
from pgmo.report.blocks.history import follow
from pgmo.units import format_bytes
from tests.unit.profiler.importers.snapshots import Device, save, snapshot, train


@pytest.fixture
def source(tmp_path):
    device = Device()
    train(device, 5)
    device.out_of_memory(2**33)
    return save(snapshot(device), tmp_path / "run.pickle")


def test_the_chain_of_commands(source, tmp_path, capsys):
    assert main(["import", str(source)]) == 0
    out, err = capsys.readouterr()
    profile = tmp_path / "run.pgmoprof"
    assert err == f"Wrote {profile}\nNext: pgmo plan {profile}\n"
    assert "source      run.pickle, cuda:0" in out
    assert "of 9 requests, found by their period" in out
    assert "out of memory: 8.00 GiB with 0 B free on the device" in out
    assert main(["plan", str(profile)]) == 0
    plan = Plan.load(profile.with_suffix(".pgmoplan"))
    loaded = Profile.load(profile)
    assert plan.fingerprint == loaded.fingerprint
    assert loaded.meta.device == "cuda:0"
    assert loaded.trace.requests == 49


def test_json(source, tmp_path, capsys):
    target = tmp_path / "other.pgmoprof"
    assert main(["import", str(source), "-o", str(target), "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)["profiles"]
    profile = Profile.load(target)
    assert told["file"] == str(target)
    assert told["requests"] == 49
    assert told["circular"] is True
    assert told["max_load"] == profile.max_load()
    assert told["peak_reserved"] == sum(
        segment["total_size"] for segment in pickle.loads(source.read_bytes())["segments"]
    )


def test_nothing_is_overwritten_unasked(source, tmp_path, capsys):
    target = tmp_path / "run.pgmoprof"
    target.write_text("mine")
    assert main(["import", str(source)]) == 1
    assert "exists already" in capsys.readouterr().err
    assert target.read_text() == "mine"
    assert main(["import", str(source), "--force"]) == 0
    assert len(Profile.load(target)) == 9


def test_a_file_for_each_device(tmp_path, capsys):
    devices = Device(0), Device(1)
    train(devices[0], 3)
    train(devices[1], 4)
    source = save(snapshot(*devices), tmp_path / "two.pickle")
    assert main(["import", str(source)]) == 0
    assert Profile.load(tmp_path / "two.0.pgmoprof").trace.device == 0
    assert Profile.load(tmp_path / "two.1.pgmoprof").trace.device == 1
    assert not (tmp_path / "two.pgmoprof").exists()
    assert main(["import", str(source), "--device", "1"]) == 0
    assert Profile.load(tmp_path / "two.pgmoprof").trace.device == 1
    assert main(["import", str(source), "--device", "5"]) == 1
    assert "give one of these: 0, 1" in capsys.readouterr().err


def test_a_table(tmp_path, capsys):
    source = tmp_path / "blocks.csv"
    source.write_text("id,lower,upper,size\n0,0,10,64\n1,5,20,32\n")
    assert main(["import", str(source)]) == 0
    assert "blocks      2 in 2 ticks" in capsys.readouterr().out
    assert Profile.load(tmp_path / "blocks.pgmoprof").max_load() == 96


def test_a_malicious_pickle_is_one_message(tmp_path, capsys):
    source = tmp_path / "evil.pickle"
    source.write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    assert main(["import", str(source)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"pgmo import: {source}: asks for the global 'os.system'; ")
    assert not (tmp_path / "evil.pgmoprof").exists()


def test_a_log_without_requests(tmp_path, capsys):
    source = tmp_path / "log.csv"
    source.write_text("Thread,Time,Action,Pointer,Size,Stream\n")
    assert main(["import", str(source)]) == 1
    assert "has no allocation in its 0 events on cuda:0" in capsys.readouterr().err


def test_the_live_peak_of_the_recording_is_told(source, tmp_path, capsys):
    assert main(["import", str(source), "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)["profiles"]
    trace = Profile.load(tmp_path / "run.pgmoprof").trace
    assert told["live_peak"] == int(follow(trace).live().max()) > told["max_load"]
    assert told["guessed"]
    assert main(["import", str(source), "--force"]) == 0
    peak = format_bytes(told["live_peak"])
    assert f"live peak   {peak} of all blocks in the recording" in capsys.readouterr().out


def test_the_whole_or_one_iteration(source, tmp_path, capsys):
    made = tmp_path / "run.pgmoprof"
    assert main(["import", str(source), "--whole"]) == 0
    assert "iterations  all 49 requests, by hand" in capsys.readouterr().out
    assert not Profile.load(made).circular
    assert main(["import", str(source), "--iteration", "2", "--force"]) == 0
    assert "of 9 requests, number 2, chosen by hand" in capsys.readouterr().out
    assert Profile.load(made).circular
    with pytest.raises(SystemExit, match="2"):
        main(["import", str(source), "--iteration", "2", "--whole", "--force"])
    capsys.readouterr()
    assert main(["import", str(source), "--iteration", "77", "--force"]) != 0
    assert "iteration 77 is not in the recording" in capsys.readouterr().err


def test_a_guess_stays_a_guess_in_the_file(source, tmp_path, capsys):
    device = Device()
    for _ in range(8):
        device.free(device.alloc(9000))
        device.alloc(700)  # leaks
    leaky = save(snapshot(device), tmp_path / "leaky.pickle")
    assert main(["import", str(leaky)]) == 0
    assert main(["leaks", str(tmp_path / "leaky.pgmoprof"), "--json"]) == 0
    out = capsys.readouterr().out
    (leak,) = json.loads(out[out.index("{") :])["found"]
    assert leak["confidence"] == "likely"


def test_a_table_has_no_iterations(tmp_path, capsys):
    source = tmp_path / "blocks.csv"
    source.write_text("id,lower,upper,size\n0,0,10,64\n1,5,20,32\n")
    assert main(["import", str(source), "--iteration", "0"]) != 0
    assert "is a table of blocks, which has no iterations" in capsys.readouterr().err
    assert main(["import", str(source), "--whole"]) == 0
    assert "live peak   96 B" in capsys.readouterr().out
