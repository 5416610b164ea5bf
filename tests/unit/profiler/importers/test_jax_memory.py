"""JAX's memory profiles: how much each stack of calls holds at one moment."""

import gzip
import random
import subprocess
import sys

import pytest

from pgmo.errors import FileError
from pgmo.profiler.importers.formats import read_file
from pgmo.profiler.importers.pprof import parse_pprof
from tests.unit.profiler.importers.pprof_files import field, pprof

CALLS = (("_wrap", "/x/site-packages/jax/core.py", 8), ("zeros", "/x/site-packages/jax/np.py", 4))
MINE = ("init", "/me/train.py", 31)


BUFFERS = pprof(
    [
        ((*CALLS, MINE), (2, 513), {"kind": "buffer", "device": "gpu:0"}),
        ((MINE,), (1, 64), {"kind": "buffer", "device": "gpu:1"}),
        ((), (1, 32), {"kind": "executable"}),
        (CALLS, (1, 0), {"kind": "executable"}),
    ]
)


@pytest.fixture
def written(tmp_path):
    def write(data, name="memory.prof"):
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return write


@pytest.mark.parametrize("pack", [gzip.compress, bytes])
def test_who_holds_what_on_each_device(written, pack):
    first, second = read_file(written(pack(BUFFERS)))
    assert (first.framework, first.device, second.device) == ("jax", "gpu:0", "gpu:1")
    assert first.trace.size.tolist() == [257, 256, 32]
    assert first.trace.requests == 0  # all were there before: nothing tells when they came
    zeros, code = first.trace.tags
    assert (zeros.op, zeros.file) == ("zeros", "train.py:31 in init")
    assert zeros.stack == ("core.py:8 in _wrap", "np.py:4 in zeros", "train.py:31 in init")
    assert (code.op, code.file) == ("executable", "")
    assert second.trace.tags[0].op == "buffer"
    assert "made up" in first.notes["addresses"]


def test_one_device_can_be_chosen(written):
    (only,) = read_file(written(BUFFERS), 1)
    assert only.trace.size.tolist() == [64]
    with pytest.raises(FileError, match="nothing of device 7; give one of these: 0, 1"):
        read_file(written(BUFFERS), 7)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (BUFFERS[:-1], "is cut off"),
        (pprof([], types=(("samples", "count"), ("cpu", "nanoseconds"))), "but samples/count"),
        (pprof([((), (1,), {})]), "a sample of 1 values"),
        (pprof([((), (2**40, 2**40), {})]), "a count is"),
        (pprof([((), (1_000_000, 8), {})] * 2), "more than 1,000,000 blocks"),
        (pprof([((), (1, 2**63), {})]), "bytes is"),
        (pprof([((), (1, 8), {"device": "tpu:900"})]), "the device is 900"),
        (pprof([((), (1, 8), {})], rest=field(2, field(3, field(1, 99)))), "text 99"),
        (pprof([]), "nothing is alive"),
    ],
)
def test_what_cannot_be_read_is_said(written, data, why):
    with pytest.raises(FileError, match=why):
        read_file(written(data))


def test_a_location_that_stands_for_many_calls_cannot_be_told_of_often():
    line = field(4, field(1, 1) + field(2, 1))
    bomb = field(4, field(1, 1) + 2000 * line) + field(2, field(1, 2000 * b"\x01"))
    with pytest.raises(ValueError, match="more calls than a file of its size"):
        parse_pprof(pprof([]) + bomb)


def test_changed_files_end_in_an_error_of_ours_or_are_read(written):
    dice = random.Random(0)
    read = 0
    for _ in range(300):
        data = bytearray(BUFFERS)
        for _ in range(dice.randrange(1, 4)):
            data[dice.randrange(3, len(data))] = dice.randrange(256)
        try:
            read += len(read_file(written(bytes(data)))) > 0
        except FileError:
            continue
    assert 0 < read < 300


PROGRAM = """
import sys
import jax
import jax.numpy as jnp

weights = jnp.zeros((256, 256))
jax.profiler.save_device_memory_profile(sys.argv[1])
"""


def test_a_profile_of_jax_itself(tmp_path):
    pytest.importorskip("jax")
    path = tmp_path / "memory.prof"
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    subprocess.run([sys.executable, str(program), str(path)], check=True, timeout=120)
    (found,) = read_file(path)
    sizes = dict(zip(found.trace.size.tolist(), found.trace.tag.tolist(), strict=True))
    tag = found.trace.tags[sizes[4 * 256 * 256]]
    assert tag.op == "zeros"
    assert tag.file == "program.py:6 in <module>"
