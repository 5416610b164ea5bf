"""Only complete adapters that this user has compiled are loaded from the cache."""

import ctypes
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from pgmo.allocator.build import compile as compiling
from pgmo.allocator.build.compile import AdapterSource, adapter_path, compiled_adapter, kept_adapter
from pgmo.files import cache_folder

SOURCE = AdapterSource("tiny", "a test", "1.0", ())
SOMEBODY = 1234
ROOT = os.geteuid() == 0

as_root = pytest.mark.skipif(not ROOT, reason="gives files to somebody else")


pytestmark = pytest.mark.usefixtures("tiny_sources")


@pytest.fixture
def evil(tmp_path):
    """Return the path of a library that another user tries to inject."""
    source, library = tmp_path / "evil.cpp", tmp_path / "evil.so"
    source.write_text('extern "C" int answer() { return 666; }\n')
    subprocess.run(["g++", "-shared", "-fPIC", source, "-o", library], check=True)
    return library.read_bytes()


def answer():
    with compiled_adapter(SOURCE) as path:
        return ctypes.CDLL(str(path)).answer()


def sealed(data, name=None):
    return cache_folder._sealed(name or adapter_path(SOURCE).name, data)


def plant(data):
    """Copy a file to the adapter's path in the cache, and return the path."""
    path = adapter_path(SOURCE)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_cached_files_are_writable_by_no_other_user(tmp_path):
    before = os.umask(0)
    try:
        assert answer() == 42
    finally:
        os.umask(before)
    path = adapter_path(SOURCE)
    assert [mode(one) for one in (tmp_path / "cache", path.parent, path)] == [0o755, 0o755, 0o644]
    assert sorted(one.suffix for one in path.parent.iterdir()) == [".lock", ".so"]
    assert mode(path.with_suffix(".lock")) == 0o600  # other users could hold the lock


def test_a_library_without_a_seal_is_not_loaded(evil):
    plant(evil)
    assert answer() == 42


def test_a_library_sealed_under_another_name_is_not_loaded(evil):
    plant(sealed(evil, "tiny-0.9-0123456789abcdef.so"))
    assert answer() == 42


def test_a_library_that_others_may_have_written_is_not_loaded(evil, capfd):
    path = plant(sealed(evil))
    path.chmod(0o664)
    assert answer() == 42
    assert answer() == 42  # the adapter has been replaced
    assert capfd.readouterr().err.count("compiling") == 1
    assert mode(path) == 0o644


@as_root
def test_a_library_of_somebody_else_is_not_loaded(evil):
    path = plant(sealed(evil))
    os.chown(path, SOMEBODY, -1)
    assert answer() == 42
    assert path.stat().st_uid == 0


def test_a_link_to_a_library_is_not_loaded_and_not_followed(evil, tmp_path):
    path = plant(b"")
    path.unlink()
    precious = tmp_path / "precious.so"
    precious.write_bytes(sealed(evil))
    path.symlink_to(precious)
    assert answer() == 42
    assert precious.read_bytes() == sealed(evil)
    assert not path.is_symlink()


@pytest.mark.parametrize("kept", [0, 1, 63, 64, 4096, 0.5, 0.99, -1])
def test_a_truncated_library_is_compiled_again(kept, tmp_path):
    # In a process of its own, which the loader would end by SIGBUS without the check.
    assert answer() == 42
    path = adapter_path(SOURCE)
    size = path.stat().st_size
    os.truncate(path, int(size * kept) if isinstance(kept, float) else kept % size)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, tmp_path / "csrc"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "42\n"), done.stderr
    assert path.stat().st_size == size


PROGRAM = """
import ctypes, pathlib, sys
from pgmo.allocator.build import compile as c
c.native_sources = lambda: pathlib.Path(sys.argv[1])
with c.compiled_adapter(c.AdapterSource("tiny", "a test", "1.0", ())) as path:
    print(ctypes.CDLL(str(path)).answer())
"""


@pytest.mark.parametrize("at", [100, -70, -1])
def test_a_library_with_a_changed_byte_is_compiled_again(at):
    assert answer() == 42
    path = adapter_path(SOURCE)
    whole = path.read_bytes()
    data = bytearray(whole)
    data[at] ^= 1
    path.write_bytes(data)
    assert answer() == 42
    assert path.read_bytes() == whole or path.stat().st_size == len(whole)


def test_a_folder_of_ours_is_closed_to_others(evil):
    path = plant(sealed(evil))
    path.chmod(0o666)
    path.parent.chmod(0o777)
    assert answer() == 42
    assert mode(path.parent) == 0o755


@as_root
def test_a_folder_of_somebody_else_is_left_alone(evil, capfd):
    path = plant(sealed(evil))
    os.chown(path.parent, SOMEBODY, -1)
    assert answer() == 42
    said = capfd.readouterr().err
    assert f"{path.parent} belongs to user {SOMEBODY}, you are 0. To keep it, set" in said
    assert "compiled for this process only" in said
    assert path.read_bytes() == sealed(evil)
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_a_folder_that_is_a_link_is_left_alone(evil, tmp_path, capfd):
    plant(sealed(evil))
    adapters = adapter_path(SOURCE).parent
    adapters.rename(tmp_path / "elsewhere")
    adapters.symlink_to(tmp_path / "elsewhere")
    assert answer() == 42
    assert f"{adapters} is a symbolic link" in capfd.readouterr().err


def test_a_cache_folder_that_is_a_link_serves(tmp_path, monkeypatch, capfd):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.setenv("PGMO_CACHE_DIR", str(tmp_path / "link"))
    assert [answer(), answer()] == [42, 42]
    assert capfd.readouterr().err.count("\n") == 1


@as_root
def test_below_a_folder_that_everybody_writes_to(tmp_path, monkeypatch):
    shared = tmp_path / "tmp"
    shared.mkdir()
    shared.chmod(0o1777)
    monkeypatch.setenv("PGMO_CACHE_DIR", str(shared))
    assert answer() == 42
    (shared / "adapters").rename(shared / "ours")
    (shared / "adapters").mkdir()
    os.chown(shared / "adapters", SOMEBODY, -1)
    assert answer() == 42
    assert not list((shared / "adapters").iterdir())


@as_root
def test_a_library_compiled_by_root_serves_everybody():
    assert answer() == 42
    path = adapter_path(SOURCE)
    folder = os.open(path.parent, os.O_RDONLY)
    os.seteuid(SOMEBODY)  # which cannot read pytest's folders
    try:
        cache_folder._check_owner(folder, "the folder")
        os.close(cache_folder.open_file(folder, path.name)[0])
    finally:
        os.seteuid(0)
        os.close(folder)


def test_several_libraries_are_loaded_as_themselves(tiny_sources):
    # All are loaded from descriptors with the same number.
    for number in (1, 2, 3):
        text = f'extern "C" int answer() {{ return {number}; }}\n'
        (tiny_sources / "adapters" / "tiny.cpp").write_text(text)
        assert answer() == number


def refusing(error):
    def refuse(*arguments, **options):
        raise error

    return refuse


@pytest.mark.parametrize(
    ("function", "error"),
    [
        ("open_folder", PermissionError(13, "Permission denied")),
        ("open_folder", OSError(30, "Read-only file system")),
        ("compiling", OSError(37, "No locks available")),
    ],
)
def test_a_cache_that_cannot_be_written_is_said_and_done_without(
    function, error, monkeypatch, capfd
):
    monkeypatch.setattr(compiling, function, refusing(error))
    assert [answer(), answer()] == [42, 42]
    said = capfd.readouterr().err
    assert said.count(f"cannot be used: {error.strerror}. To keep it, set PGMO_CACHE_DIR") == 2
    assert not adapter_path(SOURCE).exists()


def test_a_full_disk_is_found_out_after_compiling_once(monkeypatch, capfd):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert answer() == 42
    said = capfd.readouterr().err
    assert "cannot be used: No space left on device" in said
    assert said.count("compiling the adapter") == 1
    folder = adapter_path(SOURCE).parent
    assert [one.suffix for one in folder.iterdir()] == [".lock"]


def test_files_left_by_killed_processes_are_removed(tmp_path):
    assert answer() == 42
    folder = adapter_path(SOURCE).parent
    left = [
        "tiny-0.9-0123456789abcdef.4711.tmp",
        ".tiny-0.9-0123456789abcdef.so.0123456789ab.partial",
        "tiny-0.9-0123456789abcdef.lock",
    ]
    for name in left:
        (folder / name).touch()
        os.utime(folder / name, (0, 0))
    (folder / "recent.1.tmp").touch()
    assert answer() == 42
    assert not set(left) & {path.name for path in folder.iterdir()}
    assert (folder / "recent.1.tmp").exists()


def test_a_process_that_is_killed_while_it_compiles_stops_no_other(tmp_path, monkeypatch):
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    slow = tmp_path / "slow-compiler"
    slow.write_text(f"#!/bin/sh\necho > {ready}\nexec sleep 600\n")
    slow.chmod(0o755)
    program = PROGRAM.replace(
        "with c.compiled",
        f"c.find_compiler = lambda what: [{str(slow)!r}]\n"
        "c._fingerprint = lambda *given: 'same'\n"
        "with c.compiled",
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, tmp_path / "csrc"],
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    ready.read_text()  # the child compiles, and holds the lock
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    monkeypatch.setattr(compiling, "_fingerprint", lambda *given: "same")
    assert answer() == 42
    assert adapter_path(SOURCE).exists()


def test_the_checked_library_is_the_one_loaded(evil):
    assert answer() == 42
    path = adapter_path(SOURCE)
    with compiled_adapter(SOURCE) as checked:
        other = Path(f"{path}.other")
        other.write_bytes(sealed(evil))
        other.replace(path)
        assert ctypes.CDLL(str(checked)).answer() == 42


def test_an_adapter_in_the_cache_is_found_without_a_compilation():
    with pytest.raises(FileNotFoundError), kept_adapter(SOURCE):
        pass
    assert answer() == 42
    with kept_adapter(SOURCE) as path:
        assert ctypes.CDLL(str(path)).answer() == 42
