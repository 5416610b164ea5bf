import json
import zipfile
from dataclasses import replace

import pytest
from hypothesis import given

from pgmo.archive import pack, write
from pgmo.errors import FileError, ProfileError
from pgmo.profiler.profile import COLUMNS, Profile, ProfileMeta
from pgmo.profiler.profile_file import FORMAT_VERSION
from pgmo.profiler.tag import Tag
from pgmo.profiler.trace import COLUMNS as TRACE_COLUMNS
from pgmo.profiler.trace import Event, MarkedBy, PrivateSegment, Trace
from tests.unit.profiler.examples import profiles, same, small_profile


def _fields(profile, tmp_path):
    profile.save(tmp_path / "good")
    with zipfile.ZipFile(tmp_path / "good") as archive:
        meta = json.loads(archive.read("meta.json"))
    return {name: meta[name] for name in ("ticks", "circular", "steady", "tags", "meta")}


@given(profile=profiles())
def test_any_profile_comes_back(tmp_path_factory, profile):
    path = tmp_path_factory.getbasetemp() / "any.pgmoprof"
    profile.save(path)
    assert same(profile, Profile.load(path))


@pytest.mark.parametrize(
    ("column", "row", "value", "message"),
    [
        ("size", 1, 2**62, "row 1: size is"),
        ("end", 0, -(2**63), "row 0: end is"),
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
        ({"tags": [["a", "b"]]}, r"'tags\[0\]' is .* a list of 4 to 68 strings"),
        ({"tags": [["a", "b", "c", "\ud800"]]}, r"tags\[0\]"),
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


def test_a_trace_and_lines_of_code_come_back(tmp_path):
    stack = ("train.py:31 in forward", "train.py:90 in main")
    tags = (Tag("Net", "aten.mm", "forward", stack[0], stack), Tag("", "", ""))
    trace = Trace.from_columns(
        kind=[Event.SEGMENT_ALLOC, Event.ALLOC, Event.MARK, Event.ALLOC, Event.FREE_REQUESTED],
        address=[4096, 4096, 0, 8192, 4096],
        size=[2**21, 512, 0, 64, 512],
        stream=[0, 0, 0, 7, 0],
        tag=[-1, 1, -1, 0, -1],
        time=[0, 0, 0, 5, 9],
        before=2,
        device=1,
        settings={"expandable_segments": "False"},
        tags=tags,
    )
    profile = Profile.from_columns(
        size=[64], start=[0], end=[1], ticks=1, tag=[0], address=[8192], tags=tags, trace=trace
    )
    profile.save(tmp_path / "a.pgmoprof")
    loaded = Profile.load(tmp_path / "a.pgmoprof")
    assert same(loaded, profile)
    assert loaded.tags == tags
    assert loaded.trace is not None
    assert loaded.trace.tags == tags
    assert (loaded.trace.before, loaded.trace.device) == (2, 1)
    assert loaded.trace.settings == {"expandable_segments": "False"}
    for name in TRACE_COLUMNS:
        assert getattr(loaded.trace, name).tolist() == getattr(trace, name).tolist()


def test_private_segments_come_back(tmp_path):
    private = (PrivateSegment((0, 3), 4096, 2**21), PrivateSegment((2**40, 0), 2**33, 2**25))
    trace = Trace.from_columns(kind=[0], address=[4096], size=[8], private=private)
    replace(small_profile(), trace=trace).save(tmp_path / "a.pgmoprof")
    assert Profile.load(tmp_path / "a.pgmoprof").trace.private == private


def write_with_trace(path, name="trace", kind=0, **fields):
    """Write a profile whose trace has an event of `kind` and the given fields."""
    profile = small_profile()
    trace = Trace.from_columns(kind=[0], address=[64], size=[8])
    inner = {column: getattr(trace, column).copy() for column in TRACE_COLUMNS}
    inner["kind"][0] = kind
    own = {"before": 0, "device": 0, "settings": {}, "tags": [], "marked_by": "steps"}
    packed = pack("pgmoprof", FORMAT_VERSION, inner, own | fields)
    columns = {column: getattr(profile, column) for column in COLUMNS}
    outer = _fields(profile, path.parent)
    write(path, "pgmoprof", FORMAT_VERSION, columns, outer, {name: packed})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        *(
            ({"private": private}, r"field 'private.* must be (a list|4 integers from 0)")
            for private in (7, [[1, 0, 4096]], [[1, 0, 4096, -1]], [[1, 0, True, 8]])
        ),
        ({"kind": 99}, r"row 0: kind is 99, must be an Event; record the profile again"),
        ({"name": "other"}, r"member 'other\.pgmoprof' is not part of this format"),
        ({"marked_by": "me"}, "'marked_by' is 'me', must be one of steps, "),
    ],
)
def test_a_trace_that_is_wrong_is_refused(tmp_path, changes, message):
    write_with_trace(tmp_path / "bad", **changes)
    with pytest.raises(FileError, match=message):
        Profile.load(tmp_path / "bad")


def test_texts_that_no_file_may_hold_are_spelled(tmp_path):
    odd = Tag("m\ud800", "op", "forward", "b\udcfc.py:3 in f", ("b\udcfc.py:3 in f",))
    trace = Trace.from_columns(
        kind=[0], address=[64], size=[8], tag=[0], settings={"a\ud800": "\udfff"}, tags=(odd,)
    )
    meta = ProfileMeta(model="\udcff", notes={"source": "\udce4.pickle", "\ud800": "x"})
    profile = Profile.from_columns(
        size=[8], start=[0], end=[1], ticks=1, tag=[0], tags=(odd,), meta=meta, trace=trace
    )
    profile.save(tmp_path / "a.pgmoprof")
    read = Profile.load(tmp_path / "a.pgmoprof")
    assert read.tags[0].file == r"b\udcfc.py:3 in f"
    assert read.tags[0].module == r"m\ud800"
    assert read.meta.notes == {"source": r"\udce4.pickle", r"\ud800": "x"}
    assert read.meta.model == r"\udcff"
    assert read.trace.settings == {r"a\ud800": r"\udfff"}
    assert read.trace.tags == read.tags


@pytest.mark.parametrize("device", [-1, 2**15 + 1, 10**20])
def test_a_device_that_no_file_may_hold_is_refused_before(device):
    with pytest.raises(ProfileError, match=r"device is -?\d+, must be from 0 to 32768"):
        Trace.from_columns(kind=[0], address=[64], size=[8], device=device)


def test_more_ticks_than_a_file_may_have_are_not_written(tmp_path):
    path = tmp_path / "a.pgmoprof"
    path.write_bytes(b"old")
    profile = Profile.from_columns(size=[8], start=[0], end=[1], ticks=2**22)
    with pytest.raises(FileError, match=r"declares 4194304 ticks for 1 blocks, .*; nothing was w"):
        profile.save(path)
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("address", 2**62 + 1, r"address is 4611686018427387905, must be from 0 to 2\*\*62"),
        ("time", -1, "time is -1, must be from 0"),
        ("time", 2**63 - 1, "time is 9223372036854775807, must be from 0"),
        ("size", 2**48 + 1, "size is 281474976710657, must be from 0"),
    ],
)
def test_numbers_that_would_not_add_up_are_refused(column, value, message):
    columns = {"kind": [0], "address": [64], "size": [8], "time": [0], column: [value]}
    with pytest.raises(ProfileError, match=message):
        Trace.from_columns(**columns)


def test_sizes_that_add_up_to_more_than_a_number_are_refused():
    rows = 2**14 + 1
    with pytest.raises(ProfileError, match=r"add up to 2\*\*62 bytes or more"):
        Trace.from_columns(kind=[0] * rows, address=[0] * rows, size=[2**48] * rows)


@pytest.mark.parametrize("marked_by", MarkedBy)
def test_the_origin_of_iteration_marks_is_kept(tmp_path, marked_by):
    trace = replace(Trace.from_columns(kind=[8], address=[0], size=[0]), marked_by=marked_by)
    replace(small_profile(), trace=trace).save(tmp_path / "a.pgmoprof")
    assert Profile.load(tmp_path / "a.pgmoprof").trace.marked_by == marked_by


def test_marks_by_metadata_of_an_earlier_version_are_steps(tmp_path):
    write_with_trace(tmp_path / "a.pgmoprof", marked_by="metadata")
    assert Profile.load(tmp_path / "a.pgmoprof").trace.marked_by == MarkedBy.STEPS
