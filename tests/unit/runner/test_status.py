"""The files in which running programs say how they stand: private, whole, and gone with them."""

import json
import os
import stat
import subprocess
import sys
from dataclasses import replace

import pytest

from pgmo.runner import status as module
from pgmo.runner.status import (
    RunStatus,
    StatusFile,
    began_of,
    read_running,
    status_file,
    status_folder,
)
from tests.unit.allocator.simulated import LAYERS, Loop, SimulatedAdapter, open_session, run


class Supervision:
    def __init__(self, *sessions):
        self.sessions = sessions


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PGMO_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "running"


@pytest.fixture
def trained():
    adapter = SimulatedAdapter()
    loop = Loop(adapter, LAYERS)
    with open_session(adapter) as session:
        run(loop, session, 9)
        yield Supervision(session)
    loop.finish()


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_what_is_written_is_read(trained, folder):
    with StatusFile("train.py") as file:
        file.update(trained)
        (status,) = read_running()
        assert (status.pid, status.program) == (os.getpid(), "train.py")
        (device,) = status.devices
        session = trained.sessions[0]
        assert (device.device, device.phase, device.iterations) == ("cpu", "replay", 9)
        assert device.hits == 1
        assert device.arena == session.plan.arena
        assert device.since == 5
        assert device.run_share == pytest.approx(session.counted().run_share)
    assert read_running() == []
    assert list(folder.iterdir()) == []


def test_nobody_else_can_read_it(trained, folder):
    before = os.umask(0)
    try:
        folder.mkdir(parents=True, mode=0o777)
        file = StatusFile("train.py")
        file.update(trained)
    finally:
        os.umask(before)
    assert mode(folder) == 0o700
    assert [mode(path) for path in folder.iterdir()] == [0o600]


def test_it_is_written_once_a_second_at_most(trained, monkeypatch):
    now, written = [100.0], []
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(module, "_write", lambda path, data: written.append(data))
    file = StatusFile("train.py")
    for _ in range(350):
        file.update(trained)
        now[0] += 0.01
    assert len(written) == 4


def test_a_process_that_has_gone_is_recognised_and_its_files_removed(trained, folder):
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    StatusFile("train.py").update(trained)
    (own,) = folder.iterdir()
    fields = json.loads(own.read_text())
    gone = status_file(done.pid)
    gone.write_text(json.dumps({**fields, "pid": done.pid}))
    partial = folder / f".{gone.name}.partial"
    partial.write_text("{")
    assert [one.pid for one in read_running()] == [os.getpid()]
    assert list(folder.iterdir()) == [own]


def test_a_number_that_was_given_again_is_another_process(trained, folder):
    StatusFile("train.py").update(trained)
    (path,) = folder.iterdir()
    fields = json.loads(path.read_text())
    path.write_text(json.dumps({**fields, "began": fields["began"] - 1}))
    assert read_running() == []
    assert not path.exists()


def test_another_machines_files_are_left_alone(trained, folder, monkeypatch):
    """Also one that it is writing, and one of a process with this one's number."""
    monkeypatch.setattr(module.platform, "node", lambda: "other/1")
    StatusFile("train.py").update(trained)
    (path,) = folder.iterdir()
    path.write_text(json.dumps({**json.loads(path.read_text()), "began": 1}))
    partial = folder / f".{status_file(1 << 30).name}.partial"
    partial.write_text("{")
    monkeypatch.undo()
    monkeypatch.setattr(module, "status_folder", lambda: folder)
    StatusFile("train.py").update(trained)
    assert [one.pid for one in read_running()] == [os.getpid()]
    assert path.exists()
    assert partial.exists()


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"version": 2}', '{"version": 1}', "\x00"])
def test_files_that_are_none_of_ours_are_passed_over(folder, text):
    folder.mkdir(parents=True)
    (folder / "1.json").write_text(text)
    (folder / "2.json").symlink_to("/etc/passwd")
    os.mkfifo(folder / "3.json")
    assert read_running() == []


def test_a_folder_that_cannot_be_written_costs_nothing_but_the_view(trained, tmp_path):
    (tmp_path / "cache").write_text("in the way")
    with StatusFile("train.py") as file:
        file.update(trained)
        file.update(trained)
    assert read_running() == []


def test_a_link_in_the_place_of_the_folder_is_not_followed(trained, tmp_path, folder):
    (tmp_path / "elsewhere").mkdir()
    folder.parent.mkdir()
    folder.symlink_to(tmp_path / "elsewhere")
    StatusFile("train.py").update(trained)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_forked_child_leaves_the_file_to_its_parent(trained, folder):
    file = StatusFile("train.py")
    file.update(trained)
    child = os.fork()
    if not child:
        file.__exit__()
        os._exit(0)
    os.waitpid(child, 0)
    assert len(list(folder.iterdir())) == 1


def test_processes_have_a_beginning():
    own = began_of(os.getpid())
    assert own > 0
    assert began_of(2**22 + 1) == 0
    status = RunStatus(os.getpid(), own, "here", "train.py")
    assert status.is_running
    assert not replace(status, began=own + 1).is_running


def test_the_folder_is_in_the_cache(folder):
    assert status_folder() == folder
