"""Tests with files that once crashed pgmo, hung it, took gigabytes, or led to invalid files."""

import gzip
import json
import struct

import pytest

from tests.fuzz.alone import outcome_of


def text(value):
    encoded = value.encode("utf-8", "surrogatepass")
    return b"\x8c" + bytes([len(encoded)]) + encoded


def fields(**values):
    """Return the instructions of a dictionary."""
    return b"}(" + b"".join(text(name) + value for name, value in values.items()) + b"u"


DOUBLING = b")\x94" + b"".join(b"h%c" % at * 2 + b"\x86\x94" for at in range(60))
HUGE = b"h\x3c"  # a tuple with 2**60 leaves
EVENT = {"action": text("alloc"), "addr": b"K\x01", "size": b"K\x01", "stream": b"K\x00"}
EVENT |= {"frames": b"]"}
FRAME = {"name": text("f"), "filename": text("b.py"), "line": b"K\x03"}


def pickled(event=EVENT, **others):
    """Return a snapshot of one event, in which `HUGE` refers to a tuple with 2**60 leaves."""
    whole = {"zero": b"(" + DOUBLING + b"t", "segments": b"]"}
    whole |= {"device_traces": b"](](" + fields(**event) + b"ee", **others}
    return b"\x80\x04" + fields(**whole) + b"."


def segment(**values):
    whole = {"address": b"K\x00", "total_size": b"M\x00\x02", "blocks": b"]", **values}
    return b"](" + fields(**whole) + b"e"


SNAPSHOTS = {
    "keys of nested tuples": b"\x80\x02}(" + b")" + b"\x85" * 1_000_000 + b"K\x01u.",
    "a doubling key": b"\x80\x04" + DOUBLING + b"}(" + HUGE + b"K\x01u.",
    "a doubling key of an event": pickled()[:-2] + HUGE + b"K\x01u.",
    "nested lists": b"\x80\x02" + b"]" * 200_000 + b"a" * 199_999 + b".",
    "nested tuples": pickled(x=b")" + b"\x85" * 1_000_000),
    "marks": b"\x80\x04" + b"(" * 3_000_000,
    "a list of itself": b"\x80\x04]\x94h\x00a.",
    "segments that hold the snapshot": b"\x80\x04}\x94("
    + text("segments")
    + b"](h\x00e"
    + text("device_traces")
    + b"]u.",
    "many empty lists": b"\x80\x04](" + b"]" * 2_000_000 + b"e.",
    "many empty dictionaries": b"\x80\x04](" + b"}" * 2_000_000 + b"e.",
    "a doubling global": b"\x80\x04" + DOUBLING + HUGE * 2 + b"\x93.",
    "floats as keys": b"\x80\x04}G" + struct.pack(">d", 1.5) + b"K\x01s.",
    "large integers as keys": b"\x80\x04}\x8a\x20" + b"\x7f" * 32 + b"K\x01s.",
    "one list as all traces": pickled(
        device_traces=b"](]\x94(" + b"N" * 60_000 + b"e" + b"j\x3d\x00\x00\x00" * 60_000 + b"e"
    ),
    **{f"a doubling {name}": pickled({**EVENT, name: HUGE}) for name in EVENT if name != "frames"},
    "a device below zero": pickled(segments=segment(device=b"J\xff\xff\xff\xff")),
    "a device that no framework has": pickled(segments=segment(device=b"J\x00\x00\x00\x01")),
    "a device that is not a number": pickled(
        segments=segment(device=b"G" + struct.pack(">d", 1e999))
    ),
    "an address of 2**63 - 1": pickled({**EVENT, "addr": b"\x8a\x08" + b"\xff" * 7 + b"\x7f"}),
}
READ = {
    "half of a surrogate pair": pickled(
        {
            **EVENT,
            "frames": b"]("
            + fields(name=text("f\ud800"), filename=text("b\ud800.py"), line=b"K\x03")
            + b"e",
        }
    ),
    **{
        f"a doubling {name} of a frame": pickled(
            {**EVENT, "frames": b"](" + fields(**{**FRAME, name: HUGE}) + b"e"}
        )
        for name in FRAME
    },
    "annotations that are no dictionaries": pickled(external_annotations=HUGE),
    "doubling things that are not frames": pickled({**EVENT, "frames": HUGE}),
    "doubling settings of another type": pickled(allocator_settings=HUGE),
    "doubling settings": pickled(allocator_settings=fields(a=HUGE, b=fields(c=HUGE))),
}


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_snapshots_that_are_refused(name):
    said = outcome_of(SNAPSHOTS[name], ".pickle")
    assert said.startswith("refused ")
    assert "is damaged" not in said  # that would be a mistake of this test
    assert "cut off" not in said


@pytest.mark.parametrize("name", READ)
def test_snapshots_that_are_read_and_saved_and_read_again(name):
    assert outcome_of(READ[name], ".pickle") == "read"


INFINITE = float("inf")


def cupy(**changes):
    whole = {"hook": "malloc", "device_id": 0, "size": 24, "mem_size": 512, "mem_ptr": 512}
    return json.dumps({**whole, **changes}, separators=(",", ":")).replace("Infinity", "1e999")


LOGS = {
    **{
        f"{name} is {value}": cupy(**{name: value})
        for name in ("device_id", "size", "mem_size", "mem_ptr")
        for value in (INFINITE, -1, 10**20, [24], 1.5, None)
    },
    "nested lists": '{"hook":' + "[" * 200_000,
}


@pytest.mark.parametrize("name", LOGS)
def test_cupy_logs_that_are_refused(name):
    assert outcome_of(LOGS[name].encode(), ".log").startswith("refused ")


def rmm(*cells, header="Time,Action,Pointer,Size,Stream"):
    return f"{header}\n{','.join(cells)}\n".encode()


LINE = ("10:19:32.000123", "allocate", "0x40", "8", "0x0")
TABLES = {
    "a field of 200000 characters": rmm(*LINE[:4], f'"{"x" * 200_000}"'),
    "a column of 200000 characters": rmm(*LINE, header="Time,Action,Pointer,Size," + "x" * 200_000),
    "a failure of 4000 digits": rmm(LINE[0], "allocate failure", "0x40", "9" * 4000, "0x0"),
    "a size of 26 digits": rmm(*LINE[:3], "9" * 26, "0x0"),
    "a size of 2**60": rmm(*LINE[:3], str(2**60), "0x0"),
    "a pointer below zero": rmm(*LINE[:2], "-0x40", *LINE[3:]),
    "a day of 30 digits": rmm("9" * 30 + ":19:32.000123", *LINE[1:]),
    "a table with many columns": b"id,lower,upper,size" + b",a" * 100_000 + b"\n0,0,1,1" * 100,
}


@pytest.mark.parametrize("name", TABLES)
def test_logs_and_tables_that_are_refused(name):
    assert outcome_of(TABLES[name], ".csv").startswith("refused ")


BOMBS = {
    ".pickle": b"\x80\x04](" + b"]" * 2**26 + b"e.",
    ".csv": b"id,lower,upper,size\n" + b"0,0,1,1\n" * 2**23,
}


@pytest.mark.parametrize("suffix", BOMBS)
def test_files_that_unpack_to_a_thousand_times_their_size_are_refused(suffix):
    assert outcome_of(gzip.compress(BOMBS[suffix], 1), suffix).startswith("refused ")


def test_a_compressed_table_is_read():
    table = b"id,lower,upper,size\na,0,2,8\nb,1,3,8\n"
    assert outcome_of(gzip.compress(table), ".csv") == "read"
