import os

import pytest

from pgmo.doctor.compiler import try_compiler


def compiler(folder, name, text):
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_the_compiler_of_this_machine_works():
    found = try_compiler()
    assert found.command
    assert found.version
    assert found.error == ""


def test_none_at_all(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    found = try_compiler()
    assert found.command == ""
    assert "found none" in found.error


@pytest.mark.skipif(os.name != "posix", reason="needs a shell")
def test_one_that_is_too_old(monkeypatch, tmp_path):
    refuses = 'echo "try.cpp:1: error: concepts: no such file"; exit 1'
    monkeypatch.setenv("CXX", compiler(tmp_path, "old++", refuses))
    found = try_compiler()
    assert found.error == "try.cpp:1: error: concepts: no such file"


def test_one_that_says_nothing(monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", compiler(tmp_path, "mute++", "exit 4"))
    assert try_compiler().error == "exit code 4"
