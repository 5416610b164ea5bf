"""JAX's memory profiles: what `jax.profiler.save_device_memory_profile("a.prof")` writes.

They are of one moment: which stack of calls holds how many buffers of how many bytes. Nothing tells
when a buffer was made and when it goes. So all of them count as there before, as in a snapshot of
PyTorch's without a history: who holds memory can be told, and nothing can be planned.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pgmo.errors import FileError
from pgmo.profiler.importers.checked_values import MOST_DEVICE, integer
from pgmo.profiler.importers.contents import contents
from pgmo.profiler.importers.event_log import EventLog, choose_device
from pgmo.profiler.importers.frames import Frame, Labels, tag_of
from pgmo.profiler.importers.imported import Imported
from pgmo.profiler.importers.pprof import Pprof, Sample, parse_pprof
from pgmo.profiler.tag import Tag
from pgmo.profiler.trace import MOST_SIZE

_MOST_BLOCKS = 1_000_000
_BYTES = ("space", "bytes")
_COUNT = ("allocations", "count")
_DEVICE = re.compile(r"\d+")
_FIRST_ADDRESS = 512


def read_jax_memory(path: Path, device: int | None = None) -> list[Imported]:
    """Reads a memory profile. Addresses are made up, as it has none.

    Raises:
        FileError: when it is damaged, or a profile of something else, such as time.
    """
    try:
        profile = parse_pprof(contents(path))
        count, size = _columns(profile)
        by_device: dict[int, list[tuple[Sample, int, int]]] = {}
        names: dict[int, str] = {}
        total = 0
        for sample in profile.samples:
            if len(sample.values) != len(profile.types):
                raise ValueError(f"has a sample of {len(sample.values)} values")
            blocks = integer(sample.values[count], "a count", 0, _MOST_BLOCKS)
            held = integer(sample.values[size], "bytes", 0, MOST_SIZE)
            total += blocks
            if total > _MOST_BLOCKS:
                raise ValueError(f"has more than {_MOST_BLOCKS:,} blocks")
            if blocks and held:
                name = sample.labels.get("device", "")
                found = _DEVICE.search(name)
                number = integer(int(found[0][:9]), "the device", 0, MOST_DEVICE) if found else 0
                names.setdefault(number, name)
                by_device.setdefault(number, []).append((sample, blocks, held))
    except ValueError as error:
        raise FileError(f"{path}: is no memory profile of JAX ({error}); save it again") from error
    if not by_device:
        raise FileError(f"{path}: is a memory profile in which nothing is alive; save it later")
    labels = Labels(frame for sample in profile.samples for frame in sample.frames)
    return [
        _imported(path, number, names[number], by_device[number], labels)
        for number in choose_device(path, list(by_device), device)
    ]


def _columns(profile: Pprof) -> tuple[int, int]:
    """Where counts and bytes are among the values."""
    for wanted in (_COUNT, _BYTES):
        if wanted not in profile.types:
            there = ", ".join("/".join(own) for own in profile.types) or "nothing"
            raise ValueError(f"it tells no {'/'.join(wanted)} but {there}")
    return profile.types.index(_COUNT), profile.types.index(_BYTES)


def _imported(
    path: Path,
    number: int,
    name: str,
    samples: Sequence[tuple[Sample, int, int]],
    labels: Labels,
) -> Imported:
    log = EventLog()
    address = _FIRST_ADDRESS
    for sample, blocks, held in samples:
        tag = _tag(sample, labels)
        for block in range(blocks):  # all of one size; what does not divide is the first ones'
            size = held // blocks + (block < held % blocks)
            if size:
                log.was_there(address, size, tag=tag)
            address += size
    notes = {"addresses": "made up: a memory profile of JAX has none"}
    return log.imported(path, "jax", name, number, notes=notes)


def _tag(sample: Sample, labels: Labels) -> Tag:
    """Who made it: the function of JAX that the user's own code called stands for the operator."""
    if not sample.frames:
        return Tag("", sample.labels.get("kind", ""), "")
    called: Frame | None = None
    for frame in sample.frames:
        if labels.facts(frame).own:
            break
        called = frame
    op = sample.labels.get("kind", "") if called is None else called.name
    return replace(tag_of(sample.frames, labels), op=op[:50], phase="")
