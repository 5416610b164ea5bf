import dataclasses
import json
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings

from pgmo.archive import write
from pgmo.errors import FileError
from pgmo.profiler.profile import COLUMNS, Profile
from pgmo.profiler.profile_file import FORMAT_VERSION
from tests.unit.profiler.examples import profiles, same, small_profile


def _fields(profile, tmp_path):
    profile.save(tmp_path / "good")
    with zipfile.ZipFile(tmp_path / "good") as archive:
        meta = json.loads(archive.read("meta.json"))
    return {name: meta[name] for name in ("ticks", "circular", "steady", "tags", "meta")}


def test_round_trip(tmp_path):
    profile = small_profile()
    profile.save(tmp_path / "a.pgmoprof")
    loaded = Profile.load(tmp_path / "a.pgmoprof")
    assert same(profile, loaded)
    assert loaded.fingerprint == profile.fingerprint


@settings(deadline=None)
@given(profile=profiles())
def test_any_profile_comes_back(tmp_path_factory, profile):
    path = tmp_path_factory.getbasetemp() / "any.pgmoprof"
    profile.save(path)
    assert same(profile, Profile.load(path))


@pytest.mark.parametrize(
    ("column", "row", "value", "message"),
    [
        ("size", 1, -100, "row 1: size is -100"),
        ("size", 1, 2**62, "row 1: size is"),
        ("start", 2, -1, "row 2: start is -1"),
        ("end", 2, 1, r"row 2: end is 1 \(start 2\)"),
        ("end", 2, 15, "row 2: end is 15"),
        ("end", 0, -(2**63), "row 0: end is"),
        ("tag", 3, 9, "row 3: tag is 9"),
        ("tag", 3, -2, "row 3: tag is -2"),
        ("ordinal", 4, 6, "row 4: ordinal is 6"),
    ],
)
def test_columns_that_contradict_themselves(tmp_path, column, row, value, message):
    profile = small_profile()
    fields = _fields(profile, tmp_path)
    columns = {name: getattr(profile, name).copy() for name in COLUMNS}
    columns[column][row] = value
    write(tmp_path / "bad", "pgmoprof", FORMAT_VERSION, columns, fields)
    with pytest.raises(FileError, match=message) as caught:
        Profile.load(tmp_path / "bad")
    assert str(tmp_path / "bad") in str(caught.value)


META = ("framework", "framework_version", "pgmo_version", "device", "model", "date")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ticks": 4.0}, "'ticks' is 4.0, must be a whole number"),
        ({"ticks": 2**26}, "67108864 ticks for 6 blocks"),
        ({"ticks": 10**30}, "'ticks' is a huge number"),
        ({"ticks": 3}, "row 3: start is 3"),
        ({"steady": 1}, "'steady' is 1, must be true or false"),
        ({"tags": "x"}, "'tags' is 'x', must be a list"),
        ({"tags": [["a", "b"]]}, r"'tags\[0\]' is .* a list of 3 strings"),
        ({"tags": [["a", "b", "\ud800"]]}, r"tags\[0\]"),
        ({"tags": []}, "row 0: tag is 0"),
        ({"meta": []}, "'meta' is .* must be an object"),
        ({"meta": {}}, "field 'date' is missing"),
        ({"meta": {**dict.fromkeys(META, "x"), "notes": {"a": 1}}}, "'notes' is"),
        ({"meta": {**dict.fromkeys(META, 1), "notes": {}}}, "'framework' is 1, must be a string"),
        ({"color": "red"}, "field 'color' is not known"),
    ],
)
def test_fields_that_are_wrong(tmp_path, changes, message):
    profile = small_profile()
    fields = {**_fields(profile, tmp_path), **changes}
    columns = {name: getattr(profile, name) for name in COLUMNS}
    write(tmp_path / "bad", "pgmoprof", FORMAT_VERSION, columns, fields)
    with pytest.raises(FileError, match=message):
        Profile.load(tmp_path / "bad")


def test_files_of_version_1_have_no_shared_blocks(tmp_path):
    profile = small_profile()
    fields = _fields(profile, tmp_path)
    columns = {name: getattr(profile, name) for name in COLUMNS if name != "shared"}
    write(tmp_path / "old", "pgmoprof", 1, columns, fields)
    loaded = Profile.load(tmp_path / "old")
    assert same(loaded, dataclasses.replace(profile, shared=np.zeros(6, bool)))
    # A newer one must have the column, an older one must not.
    write(tmp_path / "bad", "pgmoprof", 2, columns, fields)
    with pytest.raises(FileError, match=r"member 'shared\.npy' is missing"):
        Profile.load(tmp_path / "bad")
    write(tmp_path / "bad", "pgmoprof", 1, {**columns, "shared": profile.shared}, fields)
    with pytest.raises(FileError, match=r"member 'shared\.npy' is not part of this format"):
        Profile.load(tmp_path / "bad")


def test_a_column_of_another_type(tmp_path):
    profile = small_profile()
    fields = _fields(profile, tmp_path)
    columns = {name: getattr(profile, name) for name in COLUMNS}
    columns["stream"] = columns["stream"].astype(np.int64)
    write(tmp_path / "bad", "pgmoprof", FORMAT_VERSION, columns, fields)
    with pytest.raises(FileError, match=r"'stream\.npy' has type '<i8', must be '<u8'"):
        Profile.load(tmp_path / "bad")
