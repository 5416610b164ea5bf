"""Compiling adapters on the user's machine."""

import ctypes
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from pgmo.allocator import compile as compiling
from pgmo.allocator.compile import AdapterSource, compiled_adapter
from pgmo.errors import AdapterError

SOURCE = AdapterSource("tiny", "a test", "1.0", ())


@pytest.fixture(autouse=True)
def own_sources(tmp_path, monkeypatch):
    """A tiny adapter and an empty cache."""
    sources = tmp_path / "csrc"
    (sources / "adapters").mkdir(parents=True)
    (sources / "engine").mkdir()
    (sources / "engine" / "pgmo_engine.h").write_text("#define ANSWER 42\n")
    adapter = '#include "engine/pgmo_engine.h"\nextern "C" int answer() { return ANSWER; }\n'
    (sources / "adapters" / "tiny.cpp").write_text(adapter)
    monkeypatch.setattr(compiling, "native_sources", lambda: sources)
    monkeypatch.setenv("PGMO_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("CXX", raising=False)
    return sources


def test_compiles_once_and_says_so(capfd):
    path = compiled_adapter(SOURCE)
    assert ctypes.CDLL(str(path)).answer() == 42
    assert "compiling the adapter for a test" in capfd.readouterr().err
    made = path.stat().st_mtime_ns
    assert compiled_adapter(SOURCE) == path
    assert path.stat().st_mtime_ns == made
    assert capfd.readouterr().err == ""


def test_each_version_and_each_change_of_the_source_has_a_binary_of_its_own(own_sources):
    first = compiled_adapter(SOURCE)
    other = compiled_adapter(AdapterSource("tiny", "a test", "1.1", ()))
    header = own_sources / "engine" / "pgmo_engine.h"
    header.write_text("#define ANSWER 43\n")
    changed = compiled_adapter(SOURCE)
    assert len({first, other, changed}) == 3
    assert ctypes.CDLL(str(changed)).answer() == 43


def test_missing_compiler_says_what_to_install(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(AdapterError) as caught:
        compiled_adapter(SOURCE)
    message = str(caught.value)
    assert message.startswith("pgmo needs a C++20 compiler to build the adapter for a test")
    assert "apt install g++" in message
    assert "CXX" in message


def test_compiler_named_in_cxx_that_is_not_there(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(AdapterError, match=r"CXX is 'no-such-compiler' now"):
        compiled_adapter(SOURCE)


def test_failing_compilation_shows_the_errors(own_sources):
    (own_sources / "adapters" / "tiny.cpp").write_text("int broken( {\n")
    with pytest.raises(AdapterError, match=r"(?s)failed with .*error.*It needs C\+\+20"):
        compiled_adapter(SOURCE)
    assert not list(Path(os.environ["PGMO_CACHE_DIR"]).rglob("*.tmp"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_cache_that_cannot_be_written(tmp_path, monkeypatch):
    locked = tmp_path / "locked"
    locked.mkdir(mode=stat.S_IRUSR | stat.S_IXUSR)
    monkeypatch.setenv("PGMO_CACHE_DIR", str(locked))
    with pytest.raises(AdapterError, match="Set PGMO_CACHE_DIR"):
        compiled_adapter(SOURCE)


def test_cache_below_a_file(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PGMO_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(AdapterError, match="Set PGMO_CACHE_DIR"):
        compiled_adapter(SOURCE)


def test_processes_that_start_at_once_compile_once(own_sources, tmp_path):
    log = tmp_path / "compilations"
    wrapper = tmp_path / "counting-compiler"
    wrapper.write_text(f'#!/bin/sh\necho x >> {log}\nsleep 0.5\nexec g++ "$@"\n')
    wrapper.chmod(0o755)
    script = (
        "import sys, pathlib, ctypes\n"
        "from pgmo.allocator import compile as c\n"
        "c.native_sources = lambda: pathlib.Path(sys.argv[1])\n"
        "path = c.compiled_adapter(c.AdapterSource('tiny', 'a test', '1.0', ()))\n"
        "print(ctypes.CDLL(str(path)).answer())\n"
    )
    command = [sys.executable, "-c", script, str(own_sources)]
    environment = {**os.environ, "CXX": str(wrapper)}
    processes = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(3)
    ]
    assert [process.communicate()[0].strip() for process in processes] == ["42"] * 3
    assert log.read_text().count("x") == 1
