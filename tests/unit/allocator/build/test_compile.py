"""Compilation of adapters on the user's machine."""

import ctypes
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pgmo.allocator.build.compile import (
    AdapterSource,
    adapter_path,
    compiled_adapter,
    compiled_library,
)
from pgmo.errors import AdapterError, FileError

SOURCE = AdapterSource("tiny", "a test", "1.0", ())


pytestmark = pytest.mark.usefixtures("tiny_sources")


def answer(source=SOURCE):
    """Load the adapter, and return its answer."""
    with compiled_adapter(source) as path:
        return ctypes.CDLL(str(path)).answer()


def test_compiles_once_and_says_so(capfd):
    assert answer() == 42
    assert "compiling the adapter for a test" in capfd.readouterr().err
    path = adapter_path(SOURCE)
    made = path.stat().st_mtime_ns
    assert answer() == 42
    assert path.stat().st_mtime_ns == made
    assert capfd.readouterr().err == ""


def test_a_build_that_cannot_write_its_files_is_tried_once(tmp_path):
    folders = []

    def build(folder):
        folders.append(folder)
        raise FileError("the disk is full")

    with pytest.raises(AdapterError, match=r"cannot compile a test.*the disk is full"):
        with compiled_library(tmp_path / "adapters" / "one.so", "a test", build):
            pass
    assert len(folders) == 1


def test_each_version_and_each_change_of_the_source_has_a_binary_of_its_own(tiny_sources):
    newer = AdapterSource("tiny", "a test", "1.1", ())
    assert (answer(), answer(newer)) == (42, 42)
    before = {adapter_path(SOURCE), adapter_path(newer)}
    header = tiny_sources / "engine" / "pgmo_engine.h"
    header.write_text("#define ANSWER 43\n")
    assert answer() == 43
    paths = before | {adapter_path(SOURCE)}
    assert len(paths) == 3
    assert all(path.exists() for path in paths)


def test_missing_compiler_says_what_to_install(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(AdapterError) as caught:
        answer()
    message = str(caught.value)
    assert message.startswith("pgmo needs a C++20 compiler to build the adapter for a test")
    assert "apt install g++" in message
    assert "CXX" in message


def test_compiler_named_in_cxx_that_is_not_there(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(AdapterError, match=r"CXX is 'no-such-compiler' now"):
        answer()
    monkeypatch.setenv("CXX", "g++ -DTEXT='open")
    with pytest.raises(AdapterError, match=r"is no command: No closing quotation"):
        answer()


def test_failing_compilation_shows_the_errors(tiny_sources):
    (tiny_sources / "adapters" / "tiny.cpp").write_text("int broken( {\n")
    with pytest.raises(AdapterError, match=r"(?s)failed with .*error.*needs C\+\+20"):
        answer()
    assert not list(Path(os.environ["PGMO_CACHE_DIR"]).rglob("*.so"))


def test_the_compilers_files_go_with_it(tiny_sources, tmp_path, monkeypatch):
    where = tmp_path / "temporary"
    where.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(where))
    left = where / "pgmo-build-left"
    left.mkdir()
    (left / "cc.s").write_text("")
    os.utime(left, (0, 0))
    recent = where / "pgmo-build-recent"
    recent.mkdir()
    assert answer() == 42
    assert list(where.iterdir()) == [recent]
    (tiny_sources / "adapters" / "tiny.cpp").write_text("int broken( {\n")
    with pytest.raises(AdapterError):
        answer()
    assert list(where.iterdir()) == [recent]


def test_no_room_to_compile(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(AdapterError, match="set TMPDIR"):
        answer()


def test_cache_below_a_file(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PGMO_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(AdapterError, match="Set PGMO_CACHE_DIR"):
        answer()


def test_processes_that_start_at_once_compile_once(tiny_sources, tmp_path):
    log = tmp_path / "compilations"
    wrapper = tmp_path / "counting-compiler"
    wrapper.write_text(f'#!/bin/sh\necho x >> {log}\nsleep 0.5\nexec g++ "$@"\n')
    wrapper.chmod(0o755)
    script = (
        "import sys, pathlib, ctypes\n"
        "from pgmo.allocator.build import compile as c\n"
        "c.native_sources = lambda: pathlib.Path(sys.argv[1])\n"
        "with c.compiled_adapter(c.AdapterSource('tiny', 'a test', '1.0', ())) as path:\n"
        "    print(ctypes.CDLL(str(path)).answer())\n"
    )
    command = [sys.executable, "-c", script, str(tiny_sources)]
    environment = {**os.environ, "CXX": str(wrapper)}
    processes = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(3)
    ]
    assert [process.communicate()[0].strip() for process in processes] == ["42"] * 3
    assert log.read_text().count("x") == 1
