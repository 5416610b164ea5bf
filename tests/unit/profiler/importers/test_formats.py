"""Telling formats apart, and the formats other than PyTorch's snapshots."""

import gzip
import json

import numpy as np
import pytest

from pgmo.errors import FileError
from pgmo.profiler.importers.formats import read_file, read_trace
from pgmo.profiler.iterations.from_trace import profile_of
from pgmo.profiler.profile import Profile
from pgmo.profiler.trace import Event
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


def memory_event(at, size, address=64, kind=1, device=0, thread=1):
    args = {"Device Type": kind, "Device Id": device, "Addr": address, "Bytes": size}
    args["Total Reserved"] = 2**21
    return {"ph": "i", "name": "[memory]", "ts": at, "pid": 1, "tid": thread, "args": args}


def call(name, at, lasts, thread=1):
    return {"ph": "X", "cat": "cpu_op", "name": name, "ts": at, "dur": lasts, "pid": 1} | {
        "tid": thread
    }


def chrome(*events):
    return json.dumps({"traceEvents": events})


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
    assert first.trace.before == 1  # the block that was freed without having been made
    assert first.notes["other lines"] == "1, passed over"
    assert (second.device, second.trace.requests) == ("cuda:1", 1)
    assert [trace.device for trace in read_trace(written(CUPY), 1)] == [1]


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
    with pytest.raises(FileError, match=r"file, line 5: .* is no complete line of CuPy's"):
        read_file(written(CUPY[:-110]))


@pytest.mark.parametrize("before_microseconds", [".", ":"])
def test_rmm_logs(written, before_microseconds):
    text = RMM.replace(".", before_microseconds)  # ":" in the logs of the first versions
    (own,) = read_file(written(text))
    trace = own.trace
    assert trace.kind.tolist() == [0, 0, 7, 1, 2, 1, 2]
    assert trace.address.tolist() == [0x2000, 0x1000, 0, 0x1000, 0x1000, 0x2000, 0x2000]
    assert trace.stream.tolist() == [2, 0, 2, 0, 0, 2, 2]
    assert trace.time.tolist() == [0, 0, 5, 15, 15, 19, 19]  # over midnight
    assert own.notes["out of memory"] == "4.88 KiB"


@pytest.mark.parametrize("line", ["7,10:00,allocate,0x1,8,0x0", "7,1:2:3:4,allocate", "x"])
def test_an_rmm_line_that_is_cut_off_is_named(written, line):
    with pytest.raises(FileError, match="line 6: is no complete line of an RMM log"):
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
    with pytest.raises(FileError, match="which is no trace"):
        read_trace(written(text, "blocks.csv"))


def test_chrome_traces(written):
    events = [
        call("ProfilerStep#1", 0, 50),
        call("train.py(12): step", 1, 48),
        call("nn.Module: Linear_0", 2, 20),
        call("aten::linear", 3, 10),
        call("aten::addmm", 4, 8),
        call("aten::empty", 5, 2),
        memory_event(6, 512),
        memory_event(20.5, -512),
        call("autograd::engine::evaluate_function: AddmmBackward0", 25, 10, thread=2),
        call("aten::mm", 26, 4, thread=2),
        memory_event(27, 256, thread=2),
        call("Optimizer.step#SGD.step", 40, 5),
        memory_event(41, 128, address=640),
        call("ProfilerStep#2", 50, 50),
        memory_event(60, 64, address=1280),
        memory_event(61, 9, kind=0, device=-1),
    ]
    (own,) = read_file(written(chrome(*events)))
    trace = own.trace
    assert own.device == "cuda:0"
    assert trace.kind.tolist() == [0, 1, 2, 0, 0, 8, 0]
    made = trace.kind == Event.ALLOC
    tags = [trace.tags[tag] for tag in trace.tag[made]]
    assert [tag.op for tag in tags] == ["aten.addmm", "aten.mm", "", ""]
    assert [tag.phase for tag in tags] == ["forward", "backward", "optimizer", "other"]
    assert [tag.file for tag in tags] == ["train.py:12 in step", "", "train.py:12 in step", ""]
    assert own.notes["marks"] == "ProfilerStep"
    assert own.notes["left out"] == "1 events of the CPU"
    assert own.notes["peak reserved"] == "2.00 MiB"


def test_chrome_traces_that_ran_out_of_memory(written):
    failed = memory_event(15, 2**30) | {"name": "[OutOfMemory]"}
    del failed["args"]["Addr"]
    other = memory_event(16, 2**30, device=1) | {"name": "[OutOfMemory]"}
    events = [memory_event(6, 512), call("aten::mm", 10, 9), failed, other, memory_event(20, -512)]
    (own,) = read_file(written(chrome(*events)), device=0)
    assert own.trace.kind.tolist() == [0, 7, 1, 2]
    assert own.trace.size.tolist() == [512, 2**30, 512, 512]
    assert own.trace.tags[own.trace.tag[1]].op == "aten.mm"
    assert own.notes["out of memory"] == "1.00 GiB"


def test_chrome_traces_of_a_cpu_and_compressed(written):
    text = chrome(memory_event(1, 512, kind=0, device=-1))
    (own,) = read_file(written(gzip.compress(text.encode()), "trace.json.gz"))
    assert (own.device, own.trace.requests) == ("cpu", 1)


def test_chrome_traces_that_the_real_profiler_writes(tmp_path):
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(300, 200)
    options = {"profile_memory": True, "activities": [torch.profiler.ProfilerActivity.CPU]}
    with torch.profiler.profile(**options) as recorded:
        for _ in range(4):
            model(torch.ones(50, 300)).sum().backward()
            model.zero_grad()
            recorded.step()
    path = tmp_path / "trace.json"
    recorded.export_chrome_trace(str(path))
    (own,) = read_file(path)
    sizes = own.trace.size[own.trace.kind == Event.ALLOC].tolist()
    assert 50 * 300 * 4 in sizes
    assert 300 * 200 * 4 in sizes
    assert any(tag.op == "aten.addmm" for tag in own.trace.tags)
    assert any(tag.phase == "backward" for tag in own.trace.tags)
    assert profile_of(own.trace).max_load() > 300 * 200 * 4


def test_snapshots_are_told_by_content(tmp_path):
    device = Device()
    train(device, 1)
    path = save(snapshot(device), tmp_path / "no_suffix")
    assert read_trace(path)[0].requests == 13
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read_trace(packed)[0].requests == 13


def test_profiles_are_told_apart(tmp_path):
    path = tmp_path / "a.pgmoprof"
    Profile.from_columns(size=[8], start=[0], end=[1], ticks=1).save(path)
    with pytest.raises(FileError, match="is a zip archive: pgmo plan and pgmo stats read"):
        read_file(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\x1f\x8b\x08rubbish", "gzip file"),
        (gzip.compress(b'{"traceEvents": []}', mtime=0)[:-9], "gzip file that is cut off"),
        ("{", "is no complete JSON"),
        ("[1, 2]", "none of its 0 events is of memory"),
        ('{"a": 1}', "no list 'traceEvents'"),
        (chrome({"ph": "X", "name": "x", "ts": 1}), "none of its 1 events is of memory"),
        (chrome({"name": "[memory]", "ts": 1, "args": {"Bytes": 8}}), "KeyError: 'Addr'"),
        ("Time,Action,Pointer,Size\n", "no allocation|"),
        ("hello world", "begins with 'hello world'; give a PyTorch memory snapshot"),
        (b"\xff\xfe\x00\x01", "begins with"),
    ],
)
def test_what_is_said_of_other_files(written, content, message):
    path = written(content)
    if message == "no allocation|":
        assert len(read_file(path)[0].trace) == 0
        return
    with pytest.raises(FileError, match=message) as caught:
        read_file(path)
    assert str(caught.value).startswith(str(path))


def test_a_file_that_unpacks_to_far_more_is_refused(written):
    bomb = gzip.compress(b"[" + b" " * 2**27, 1)
    with pytest.raises(FileError, match=r"unpacks to more than \d+ bytes; if you trust it"):
        read_file(written(bomb))


def test_folders_are_refused(tmp_path):
    with pytest.raises(FileError, match="is not a regular file"):
        read_file(tmp_path)


def test_of_deep_calls_in_a_chrome_trace_the_outermost_are_kept(written):
    calls = [call(f"a{depth}.py({depth}): f", depth, 9000 - 2 * depth) for depth in range(2000)]
    (own,) = read_file(written(chrome(*calls, memory_event(4000, 512))))
    (tag,) = own.trace.tags
    assert (tag.stack[0], tag.stack[-1]) == ("a1999.py:1999 in f", "a0.py:0 in f")
    assert tag.stack[-16] == "a15.py:15 in f"
    assert len(tag.stack) == 64
