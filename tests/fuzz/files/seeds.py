"""Small valid files of each kind, from deterministic models."""

import dataclasses
import functools
import pickle
from typing import Any

import numpy as np

from pgmo.packing.plan import Plan
from pgmo.packing.planner import plan
from pgmo.profiler.ordering.order import (
    DEVICE_DONE,
    FREE,
    RECORD,
    STREAM_DONE,
    UNKNOWN,
    WAIT,
    Order,
)
from pgmo.profiler.profile import Profile, ProfileMeta
from pgmo.profiler.tag import Tag
from pgmo.profiler.trace import Trace
from tests.unit.profiler.importers.snapshots import LAYER, Device, snapshot, step_annotations, train


@functools.cache
def _snapshots() -> tuple[bytes, ...]:
    made = []
    for expandable in (False, True):
        device = Device(expandable=expandable)
        annotations, note = step_annotations(device)
        train(device, 3, between=note)
        device.free(next(iter(device.blocks)), complete=False)
        device.empty_cache()
        device.out_of_memory(2**36, device_free=2**20)
        settings = {"expandable_segments": expandable, "roundup_power2_divisions": {"256": 2}}
        made.append(snapshot(device, annotations=annotations, settings=settings))
    first, second = Device(), Device(number=1)
    train(first, 2)
    first.forget(9)
    train(second, 1)
    made.append(snapshot(first, second))
    made += [_pinned(), _pinned(alone=True), _without_history()]
    return tuple(map(pickle.dumps, made))


def _without_history() -> dict[str, Any]:
    """Return a snapshot with segments and blocks, but without a history."""
    device = Device()
    train(device, 1)
    return snapshot(device) | {"device_traces": [[]]}


def _pinned(alone: bool = False) -> dict[str, Any]:
    """Return a snapshot with pinned memory, annotated tensors and stacks deeper than tags keep."""
    device, host = Device(), Device(number=-1)
    for number in range(0 if alone else 3):
        call = ("f", f"/home/someone/deep{number}.py", 7)
        parameter = device.alloc(4096, frames=(*LAYER, *[call] * 80, *LAYER))
        device.events.append({**device.events[-1], "action": "annotate", "user_metadata": "weight"})
        device.free(parameter)
    for size in (4096, 70_000) * 4:
        host.free(host.alloc(size))
    host.alloc(512)
    annotations, note = step_annotations(device)
    note(0)
    saved = snapshot(device, annotations=annotations, settings={"throw_on_cudamalloc_oom": True})
    return saved | {"host_segments": host.state(), "host_traces": host.events}


def snapshots(number: int) -> dict[str, Any]:
    """Return a new copy of one of the snapshots."""
    made = _snapshots()
    copy: dict[str, Any] = pickle.loads(made[number % len(made)])
    return copy


@functools.cache
def cupy() -> tuple[str, ...]:
    """Return the lines of a CuPy log."""
    lines = ["Epoch 1"]
    for step in range(3):
        for row in range(4):
            where = f'"device_id":{row % 2},"mem_size":{512 << row},"mem_ptr":{4096 * (row + 1)}'
            if not step:
                lines.append(f'{{"hook":"alloc",{where}}}')
            lines.append(f'{{"hook":"malloc","size":{500 << row},{where},"pmem_id":"0x7"}}')
        for row in range(4):
            where = f'"device_id":{row % 2},"mem_size":{512 << row},"mem_ptr":{4096 * (row + 1)}'
            lines.append(f'{{"hook":"free",{where},"pmem_id":"0x7"}}')
    return tuple(lines)


@functools.cache
def rmm() -> tuple[str, ...]:
    """Return the lines of an RMM log."""
    lines = ["Thread,Time,Action,Pointer,Size,Stream"]
    for step in range(4):
        for action in ("allocate", "free"):
            for row in range(4):
                time = f"23:59:5{step + 6}.00000{row}" if step < 3 else f"00:00:00.0000{row}"
                lines.append(f"7,{time},{action},0x{4096 * (row + 1):x},{100 << row},0x{row % 2}")
    lines.append("7,00:00:01.0,allocate failure,(nil),5000,0x2")
    return tuple(lines)


@functools.cache
def table() -> tuple[str, ...]:
    """Return the lines of a table of blocks."""
    lines = ["id,lower,upper,size,alignment"]
    lines += [
        f"b{row},{row},{row + 1 + row % 5},{64 + row % 7},{2 ** (row % 4)}" for row in range(30)
    ]
    return tuple(lines)


@functools.cache
def profiles() -> tuple[Profile, ...]:
    """Return a profile with all kinds of blocks, one with a trace, and an empty one."""
    tags = (Tag("GPT.mlp", "aten.mm", "forward", "t.py:3 in f", ("t.py:3 in f", "t.py:9 in g")),)
    trace = Trace.from_columns(
        kind=[3, 0, 8, 0, 1, 2, 0, 1, 2, 8, 0, 1, 2],
        address=[64, 64, 0, 128, 128, 128, 256, 256, 256, 0, 128, 128, 128],
        size=[4096, 8, 0, 8, 8, 8, 16, 16, 16, 0, 8, 8, 8],
        tag=[-1, 0, -1, 0, -1, -1, 0, -1, -1, -1, 0, -1, -1],
        time=[0, 0, *range(1, 12)],
        before=2,
        settings={"expandable_segments": "False"},
        tags=tags,
    )
    meta = ProfileMeta(device="cuda:0", model="GPT", notes={"source": "a.pickle"})
    order = Order(
        tick=[2, 2, 2, 9, 30, 40],
        kind=[FREE, RECORD, WAIT, STREAM_DONE, WAIT, DEVICE_DONE],
        stream=[0, 0, 1, 2, 2, 0],
        target=[0, UNKNOWN, 1, UNKNOWN, 1, UNKNOWN],
        back=[0, 0, 0, 0, 1, 0],
    )
    mixed = Profile.from_columns(
        size=np.arange(1, 41) * 100,
        start=np.arange(40),
        end=[-1 if row % 13 == 5 else row + 1 + 7 * (row % 9) for row in range(40)],
        stream=np.arange(40) % 3,
        tag=np.arange(40) % 2 - 1,
        shared=np.arange(40) % 11 == 4,
        varying=np.arange(40) % 5 == 0,
        ticks=40,
        tags=tags,
        meta=meta,
        order=order,
    )
    traced = Profile.from_columns(
        size=[8, 16],
        start=[0, 1],
        end=[1, 2],
        ticks=2,
        tag=[0, 0],
        tags=tags,
        meta=meta,
        trace=trace,
    )
    empty = Profile.from_columns(size=[], start=[], end=[], ticks=0)
    return mixed, traced, empty


@functools.cache
def plans() -> tuple[Plan, ...]:
    """Return a plan, and one with other plans and an opening."""
    # Seconds are the only field that differs between two runs.
    alone, small = (
        dataclasses.replace(plan(profile, solver="best-fit", threads=1), seconds=0.5)
        for profile in profiles()[:2]
    )
    return alone, dataclasses.replace(alone, others=(small, alone), opening=small)
