"""Errors of an adapter that cannot be loaded."""

import subprocess

import pytest

from pgmo.allocator.build.library import AdapterLibrary
from pgmo.errors import AdapterError


def test_a_damaged_library_is_to_be_deleted(tmp_path):
    opened, kept = tmp_path / "opened.so", tmp_path / "kept.so"
    opened.write_bytes(b"damaged")
    kept.write_bytes(b"damaged")
    with pytest.raises(AdapterError) as error:
        AdapterLibrary(opened, "a test", kept)
    assert f"Delete {kept} to have it compiled again" in str(error.value)
    assert str(opened) not in str(error.value)


def test_a_missing_library_is_not_to_be_deleted(tmp_path):
    with pytest.raises(AdapterError, match="cannot load the adapter for a test") as error:
        AdapterLibrary(tmp_path / "missing.so", "a test")
    assert "Delete" not in str(error.value)


def test_errors_of_the_library_are_raised(tmp_path):
    source = tmp_path / "failing.cpp"
    source.write_text(
        '#include <cstdio>\n#include <cstddef>\nextern "C" int run(int code, char* text, '
        'size_t size) { std::snprintf(text, size, "code %d", code); return code; }\n'
    )
    subprocess.run(["g++", "-shared", "-fPIC", source, "-o", tmp_path / "failing.so"], check=True)
    library = AdapterLibrary(tmp_path / "failing.so", "a test")
    library.call("run", 0)
    with pytest.raises(AdapterError, match="code 3"):
        library.call("run", 3)
