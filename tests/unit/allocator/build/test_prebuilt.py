"""Adapters that come with pgmo."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pgmo.allocator.build.compile import AdapterSource
from pgmo.allocator.build.prebuilt import (
    Prebuilt,
    digest_of,
    find_prebuilt,
    made_from,
    read_manifest,
    write_manifest,
)

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture
def source(tmp_path, tiny_sources):
    headers = tmp_path / "include"
    (headers / "c10").mkdir(parents=True)
    (headers / "c10" / "Allocator.h").write_text("struct Allocator {};\n")
    (headers / "other.h").write_text("// not included\n")
    return AdapterSource("tiny", "a test", "1.0", (), headers=headers, abi=("cuda 13",))


@pytest.fixture
def folder(tmp_path, source):
    made = tmp_path / "prebuilt"
    made.mkdir()
    (made / "tiny-1.0.so").write_bytes(b"library")
    headers = ("c10/Allocator.h",)
    row = Prebuilt(
        "tiny-1.0.so", made_from(source), headers, digest_of(source.headers, headers), "a test"
    )
    write_manifest([row], made)
    return made


def test_it_is_found_by_what_it_was_made_from(source, folder):
    assert find_prebuilt(source, folder) == folder / "tiny-1.0.so"
    # Neither the version nor a header that the adapter does not include matters.
    (source.headers / "other.h").write_text("// changed\n")
    assert find_prebuilt(replace(source, version="9.9"), folder)


def test_another_class_is_not_served(source, folder):
    (source.headers / "c10" / "Allocator.h").write_text("struct Allocator { int more; };\n")
    assert find_prebuilt(source, folder) is None
    (source.headers / "c10" / "Allocator.h").unlink()
    assert find_prebuilt(source, folder) is None


@pytest.mark.parametrize(
    "change",
    [{"abi": ("cuda 12",)}, {"generated": {"more.inc": "int f();"}}, {"headers": None}],
)
def test_another_interface_is_not_served(change, source, folder):
    assert find_prebuilt(replace(source, **change), folder) is None


def test_other_sources_of_pgmo_are_not_served(source, folder, tiny_sources):
    (tiny_sources / "engine" / "pgmo_engine.h").write_text("#define ANSWER 43\n")
    assert find_prebuilt(source, folder) is None


def test_missing_or_disabled_adapters_are_not_found(source, folder, tmp_path, monkeypatch):
    assert find_prebuilt(source, tmp_path / "nowhere") is None
    monkeypatch.setenv("PGMO_PREBUILT", "0")
    assert find_prebuilt(source, folder) is None
    monkeypatch.delenv("PGMO_PREBUILT")
    (folder / "tiny-1.0.so").unlink()
    assert find_prebuilt(source, folder) is None


PROGRAM = """
import sys
from pathlib import Path
import torch
from pgmo.allocator.build import prebuilt
prebuilt.FOLDER = Path(sys.argv[1])
import pgmo
kept = torch.ones(3)
with pgmo.optimize(device="cpu") as session:
    for _ in range(8):
        with session.iteration():
            torch.ones(64, 64).square().sum()
assert session.summary().replayed > 0
print("served")
"""


def test_without_a_compiler_pytorch_is_served(tmp_path):
    """A prebuilt adapter for the installed PyTorch is used, built as for a wheel."""
    pytest.importorskip("torch")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    out, cache = tmp_path / "out", tmp_path / "cache"
    script = str(ROOT / "packaging" / "prebuild.py")
    command = [sys.executable, script, "--out", str(out)]
    subprocess.run(command, check=True, env=environment, capture_output=True)
    assert any("(CPU)" in row.what for row in read_manifest(out))
    bare = {**environment, "PATH": "/nowhere", "PGMO_CACHE_DIR": str(cache)}
    bare.pop("CXX", None)

    def run(folder):
        return subprocess.run(
            [sys.executable, "-c", PROGRAM, str(folder)], env=bare, capture_output=True, text=True
        )

    done = run(out)
    assert done.stdout == "served\n", done.stderr
    assert not cache.exists()
    # An adapter that cannot be loaded is compiled, if there is a compiler.
    for library in out.glob("*.so"):
        library.write_bytes(b"made for another system")
    assert "needs a C++20 compiler" in run(out).stderr
