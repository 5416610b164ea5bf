"""Tests of the detection of formats, and of the formats other than PyTorch's snapshots."""

import gzip

import numpy as np
import pytest

from pgmo.errors import FileError
from pgmo.profiler.importers.formats import read_file
from pgmo.profiler.profile import Profile
from tests.unit.profiler.importers.snapshots import Device, save, snapshot, train

CUPY = """\
Epoch 1
{"hook":"alloc","device_id":0,"mem_size":1024,"mem_ptr":4096}
{"hook":"malloc","device_id":0,"size":24,"mem_size":512,"mem_ptr":4096,"pmem_id":"0x7f"}
{"hook":"malloc","device_id":1,"size":9,"mem_size":512,"mem_ptr":4096,"pmem_id":"0x80"}
{"hook":"free","device_id":0,"mem_size":512,"mem_ptr":4096,"pmem_id":"0x7f"}
{"hook":"free","device_id":0,"mem_size":512,"mem_ptr":4608,"pmem_id":"0x81"}
"""
RMM = """\
Thread,Time,Action,Pointer,Size,Stream
7,23:59:59.999990,allocate,0x1000,1000,0x0
7,23:59:59.999995,allocate failure,(nil),5000,0x2
7,00:00:00.000005,free,0x1000,1000,0x0
7,00:00:00.000009,free,0x2000,64,0x2
"""


@pytest.fixture
def written(tmp_path):
    def write(content, name="file"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def test_cupy_lines(written):
    first, second = read_file(written(CUPY))
    assert first.trace.kind.tolist() == [0, 3, 0, 1, 2, 1, 2]
    assert first.trace.size.tolist() == [512, 1024, 24, 512, 512, 512, 512]
    assert first.trace.before == 1  # the block whose request is not in the file
    assert first.notes["other lines"] == "1, ignored"
    assert (second.device, second.trace.requests) == ("cuda:1", 1)
    assert [own.trace.device for own in read_file(written(CUPY), 1)] == [1]
    with pytest.raises(FileError, match="no events of device 7; choose from 0, 1"):
        read_file(written(CUPY), 7)


def test_memory_that_cupy_gave_back_is_not_counted_twice(written):
    lines = [
        f'{{"hook":"alloc","device_id":0,"mem_size":{size},"mem_ptr":{address}}}'
        for size, address in ((1024, 4096), (512, 8192), (2048, 4608), (512, 4096))
    ]
    lines.append('{"hook":"malloc","device_id":0,"size":9,"mem_size":512,"mem_ptr":4096}')
    (own,) = read_file(written("\n".join(lines)))
    assert own.trace.kind.tolist() == [3, 3, 4, 3, 3, 0]
    assert own.trace.address.tolist() == [4096, 8192, 4096, 4608, 4096, 4096]


def test_a_cupy_line_that_is_cut_off_is_named(written):
    with pytest.raises(FileError, match=r"file, line 5: .* is not a valid line of CuPy's"):
        read_file(written(CUPY[:-110]))


@pytest.mark.parametrize("before_microseconds", [".", ":"])
def test_rmm_logs(written, before_microseconds):
    text = RMM.replace(".", before_microseconds)  # early versions of RMM write ":"
    (own,) = read_file(written(text))
    trace = own.trace
    assert trace.kind.tolist() == [0, 0, 7, 1, 2, 1, 2]
    assert trace.address.tolist() == [0x2000, 0x1000, 0, 0x1000, 0x1000, 0x2000, 0x2000]
    assert trace.stream.tolist() == [2, 0, 2, 0, 0, 2, 2]
    assert trace.time.tolist() == [0, 0, 5, 15, 15, 19, 19]  # across midnight
    assert own.notes["out of memory"] == "4.88 KiB"
    with pytest.raises(FileError, match="no events of device 1; choose from 0"):
        read_file(written(text), 1)


@pytest.mark.parametrize(
    "line",
    [
        "7,10:00,allocate,0x1,8,0x0",
        "7,1:2:3:4,allocate",
        "7,00:00:01.000000,free,0x1000,,0x0",
        "x",
    ],
)
def test_an_rmm_line_that_is_cut_off_is_named(written, line):
    with pytest.raises(FileError, match="line 6: is not a valid line of an RMM log"):
        read_file(written(RMM + line))


def test_tables_keep_which_blocks_are_alive_together(written):
    rng = np.random.default_rng(0)
    lower = rng.integers(0, 500, 80)
    upper = lower + rng.integers(1, 100, 80)
    size = rng.integers(1, 1000, 80)
    rows = zip(range(80), lower, upper, size, strict=True)
    text = "id,lower,upper,size\n" + "\n".join(",".join(map(str, row)) for row in rows)
    (own,) = read_file(written(text, "blocks.csv"))
    table = own.table
    live = [int(size[(lower <= t) & (t < upper)].sum()) for t in range(600)]
    assert table.max_load() == max(live)
    order = np.argsort(lower, kind="stable")
    lower, upper = lower[order], upper[order]
    meet = (lower[:, None] < upper) & (lower < upper[:, None])
    assert np.array_equal(
        (table.start[:, None] < table.end) & (table.start < table.end[:, None]), meet
    )


def test_snapshots_are_detected_by_content(tmp_path):
    device = Device()
    train(device, 1)
    path = save(snapshot(device), tmp_path / "no_suffix")
    assert read_file(path)[0].trace.requests == 13
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read_file(packed)[0].trace.requests == 13


def test_a_gzip_file_of_several_members_is_read_as_a_whole(written, tmp_path):
    whole, packed = written(RMM, "trace.csv"), tmp_path / "parts.csv.gz"
    begin, end = RMM[:60].encode(), RMM[60:].encode()
    packed.write_bytes(gzip.compress(begin) + gzip.compress(end))
    traces = [read_file(path)[0].trace for path in (packed, whole)]
    assert len(traces[0]) == len(traces[1]) > 0


def test_a_number_with_two_signs_is_refused_with_its_line(written):
    path = written("id,lower,upper,size\n0,0,4,-+5\n", "blocks.csv")
    with pytest.raises(FileError, match=r"line 2: size is '-\+5', not a whole number"):
        read_file(path)


def test_profiles_are_distinguished(tmp_path):
    path = tmp_path / "a.pgmoprof"
    Profile.from_columns(size=[8], start=[0], end=[1], ticks=1).save(path)
    with pytest.raises(FileError, match="like a zip archive: a profile of pgmo needs no import"):
        read_file(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\x1f\x8b\x08rubbish", "gzip file"),
        (gzip.compress(RMM.encode(), mtime=0)[:-9], "gzip file that is cut off"),
        ('{"traceEvents": []}', "pgmo cannot import; record a memory snapshot with torch.cuda"),
        (b"\n\x04\x08\x01\x10\x02", "pgmo no longer imports; open the file with pprof"),
        ("Time,Action,Pointer,Size\n", "no allocation|"),
        ("hello world", "begins with 'hello world'; give a PyTorch memory snapshot"),
        (b"\xff\xfe\x00\x01", "begins with"),
    ],
)
def test_other_files_are_refused_with_a_hint_or_have_no_events(written, content, message):
    path = written(content)
    if message == "no allocation|":
        assert len(read_file(path)[0].trace) == 0
        return
    with pytest.raises(FileError, match=message) as caught:
        read_file(path)
    assert str(caught.value).startswith(str(path))


def test_a_file_that_unpacks_to_far_more_is_refused(written):
    bomb = gzip.compress(RMM.encode() + b" " * 2**27, 1)
    with pytest.raises(FileError, match=r"unpacks to \d+ bytes or more; if you trust it"):
        read_file(written(bomb))


def test_folders_are_refused(tmp_path):
    with pytest.raises(FileError, match="is not a regular file"):
        read_file(tmp_path)
