"""Memory profiles in pprof's format that were changed: fields, numbers, lengths, bytes."""

import gzip
from random import Random

from tests.fuzz.files.values import NUMBERS, number
from tests.unit.profiler.importers.pprof_files import TYPES, field, pprof

_CALLS = (("zeros", "/x/site-packages/jax/np.py", 4), ("init", "/me/train.py", 31))
_DEVICES = (*["gpu:0", "gpu:1", "TPU_3", "", "cpu", "\ud800"] * 9, "gpu:99999999999")
_MOST = 2**64 - 1  # what a varint of ten bytes can be


def pprof_file(random: Random) -> bytes:
    """A profile of JAX's with up to six stacks."""
    types = (*TYPES, ("time", "nanoseconds")) if random.random() < 0.1 else TYPES
    samples = []
    for row in range(random.randrange(7)):
        calls = _CALLS[: row % 3] * random.choice((1, 1, 1, 60))
        usual = (1 + row % 3, 512 << row, 7)[: len(types)]
        values = tuple(_count(random, one) for one in usual)
        labels = {"kind": ("buffer", "executable")[row % 2], "device": random.choice(_DEVICES)}
        if random.random() < 0.02:
            values = values[:-1]
        samples.append((calls, values, {} if random.random() < 0.1 else labels))
    data = pprof(samples, types, _rest(random))
    for _ in range(random.choice((0, 0, 1, 1, 3))):
        at = random.randrange(3, len(data))
        data = data[:at] + bytes([random.randrange(256)]) + data[at + random.choice((0, 1, 1, 9)) :]
    if random.random() < 0.1:
        data = data[: random.randrange(len(data))]
    return gzip.compress(data, 1, mtime=0) if random.random() < 0.5 else data


def _count(random: Random, usual: int) -> int:
    if random.random() < 0.98:
        return usual
    return abs(random.choice((number(random), random.choice(NUMBERS)))) & _MOST


def _rest(random: Random) -> bytes:
    """Further fields: of any message, unknown ones, or many of one kind."""
    if random.random() < 0.7:
        return b""
    inner = field(random.randrange(1, 8), _count(random, 1))
    return field(random.randrange(1, 20), inner * random.choice((0, 1, 3, 500)))
