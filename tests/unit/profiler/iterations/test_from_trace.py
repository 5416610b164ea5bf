"""Tests of profiles of traces: one steady iteration, or the whole trace as a line."""

import numpy as np
import pytest

from pgmo.profiler.importers.torch_memory.snapshot import read_torch_snapshot
from pgmo.profiler.iterations.from_trace import profile_of
from pgmo.profiler.profile import NEVER, Profile, ProfileMeta
from pgmo.profiler.trace import Event, Trace
from tests.unit.profiler.importers.snapshots import (
    LAYER,
    OPTIMIZER,
    Device,
    save,
    snapshot,
    step_annotations,
    train,
)

SIZES = (4096, 70_000, 3 * 2**20, 512)
REQUESTS = 9  # in an iteration of `train`: 4 activations, 4 gradients, 1 temporary


def trace_of(tmp_path, device, annotations=()):
    path = save(snapshot(device, annotations=annotations), tmp_path / "a.pickle")
    (own,) = read_torch_snapshot(path)
    return own.trace


def steady_load():
    """Return the profile of an iteration of `train` with `SIZES`."""
    return Profile.from_columns(
        size=[2 * s for s in SIZES] + list(SIZES[::-1]) + [1000],
        start=np.arange(REQUESTS),
        # An activation ends after the gradient of its layer, a gradient after the next activations.
        end=[8, 7, 6, 5] + [REQUESTS + 4] * 4 + [REQUESTS],
        ticks=REQUESTS,
    )


@pytest.mark.parametrize("iterations", [2, 3, 6])
def test_marked_iterations_give_a_circle(tmp_path, iterations):
    device = Device()
    annotations, note = step_annotations(device)
    train(device, 1 + iterations, between=note)
    profile = profile_of(trace_of(tmp_path, device, annotations))
    expected = steady_load()
    assert profile.circular
    assert profile.steady
    assert profile.size.tolist() == expected.size.tolist()
    assert profile.end.tolist() == expected.end.tolist()
    assert profile.max_load() == expected.max_load()
    # The first iteration makes the parameters, too.
    counted = f"{iterations + 1}, of which {iterations} make the same 9 requests"
    assert profile.meta.notes["iterations"] == f"{counted}, by the marks in the trace"


@pytest.mark.parametrize("forgotten", [0, 5, 40])
def test_the_period_gives_a_circle_and_marks(tmp_path, forgotten):
    device = Device()
    train(device, 8)
    device.forget(forgotten)
    trace = trace_of(tmp_path, device)
    profile = profile_of(trace)
    assert profile.circular
    assert profile.ticks == REQUESTS
    assert profile.max_load() == steady_load().max_load()
    assert not profile.persistent.any()
    assert "found by their period" in profile.meta.notes["iterations"]
    marked = profile.trace
    marks = np.flatnonzero(marked.kind == Event.MARK)
    assert np.diff(np.cumsum(marked.kind == Event.ALLOC)[marks]).tolist() == [9] * (len(marks) - 1)
    rest = marked.kind != Event.MARK
    for name in ("kind", "address", "size", "stream", "tag", "time"):
        assert np.array_equal(getattr(marked, name)[rest], getattr(trace, name))


def test_iterations_found_begin_where_the_least_is_alive(tmp_path):
    device = Device()
    for _ in range(5):
        kept = device.alloc(700)
        passing = [device.alloc(9000), device.alloc(100)]
        for address in passing:
            device.free(address)
        device.free(kept)
    device.forget(7)
    profile = profile_of(trace_of(tmp_path, device))
    assert profile.size.tolist() == [700, 9000, 100]
    assert not profile.wrap.any()


def test_blocks_that_are_never_freed_are_persistent(tmp_path):
    device = Device()
    for _ in range(6):
        device.free(device.alloc(9000))
        device.alloc(700)  # never freed
    profile = profile_of(trace_of(tmp_path, device))
    assert dict(zip(profile.size.tolist(), profile.persistent.tolist(), strict=True)) == {
        9000: False,
        700: True,
    }


def test_one_iteration_is_a_line(tmp_path):
    device = Device()
    parameters = train(device, 1)
    first = device.alloc(640)
    device.events.clear()
    kept = device.alloc(100)
    device.free(first)
    device.free(device.alloc(50))
    profile = profile_of(trace_of(tmp_path, device), ProfileMeta(device="cuda:0"))
    assert not profile.circular
    assert not profile.steady
    assert profile.ticks == 2
    lives = {
        int(size): (start, end)
        for size, start, end in zip(profile.size, profile.start, profile.end, strict=True)
    }
    assert (lives[640], lives[100], lives[50]) == ((0, 1), (0, 2), (1, 2))
    assert all(lives[size] == (0, NEVER) for size in SIZES)
    assert set(profile.address[profile.persistent].tolist()) >= set(parameters)
    assert kept in profile.address
    assert profile.meta.device == "cuda:0"


def test_blocks_used_on_several_streams_are_shared(tmp_path):
    device = Device()
    for _ in range(5):
        waiting = device.alloc(5000, stream=3)
        device.free(waiting, complete=False)
        device.free(device.alloc(800))
        device.complete(waiting)
    profile = profile_of(trace_of(tmp_path, device))
    assert dict(zip(profile.size.tolist(), profile.shared.tolist(), strict=True)) == {
        5000: True,
        800: False,
    }
    assert dict(zip(profile.size.tolist(), profile.stream.tolist(), strict=True)) == {
        5000: 3,
        800: 0,
    }


def test_making_a_network_of_alike_layers_is_no_iteration(tmp_path):
    device = Device()
    for _ in range(12):
        for size in SIZES:
            device.alloc(size)
    profile = profile_of(trace_of(tmp_path, device))
    assert not profile.circular
    assert profile.max_load() == 12 * sum(SIZES)
    assert not (profile.trace.kind == Event.MARK).any()


def test_layers_of_one_size_are_distinguished_by_their_origins(tmp_path):
    device = Device()
    before = None
    for _ in range(7):
        for line in range(5):
            frames = (("forward", "/home/someone/model.py", line), *LAYER[-2:])
            after = device.alloc(4096, frames=frames)
            if before is not None:
                device.free(before)
            before = after
    profile = profile_of(trace_of(tmp_path, device))
    assert profile.ticks == 5
    assert profile.max_load() == 2 * 4096


def test_a_first_iteration_that_ends_alike_by_chance_says_nothing(tmp_path):
    device = Device()
    device.alloc(70_000)
    state = device.alloc(700)  # kept; its size is that of an iteration's last request
    marks = []
    gradient = None
    for _ in range(5):
        marks.append(len(device.events))
        activation = device.alloc(9000)
        if gradient is not None:
            device.free(gradient)
        device.free(activation)
        gradient = device.alloc(700)
    assert state in device.blocks
    trace = trace_of(tmp_path, device)
    seen = np.flatnonzero(np.arange(len(trace)) >= trace.before)
    rows = np.insert(seen, marks, -1)
    columns = {
        name: np.where(rows < 0, value, getattr(trace, name)[rows])
        for name, value in (("kind", Event.MARK), ("address", 0), ("size", 0))
    }
    profile = profile_of(Trace.from_columns(**columns))
    assert profile.size.tolist() == [9000, 700]
    assert not profile.persistent.any()


def test_the_largest_of_iterations_of_many_sizes_counts_though_two_small_ones_agree(tmp_path):
    device = Device()
    annotations, note = step_annotations(device)
    for scale in (3, 9, 5, 8, 2, 6, 2, 7):
        batch = device.alloc(4096 * scale)
        middle, last = device.alloc(70_000 * scale), device.alloc(9000 * scale)
        for address in (batch, middle, last, device.alloc(512, frames=OPTIMIZER)):
            device.free(address)
        note(0)
    profile = profile_of(trace_of(tmp_path, device, annotations))
    assert profile.varying.tolist() == [True, True, True, False]
    assert profile.size.tolist() == [4096 * 9, 70_000 * 9, 9000 * 9, 512]


def test_marks_that_do_not_agree_give_way_to_the_period():
    rows = [(Event.ALLOC, 64, size) for size in (8, 24, 16)] * 6
    kind, address, size = [], [], []
    for at, row in enumerate(rows):
        if at in (1, 2, 9):
            kind, address, size = [*kind, Event.MARK], [*address, 0], [*size, 0]
        kind += [row[0], Event.FREE_REQUESTED]
        address += [row[1]] * 2
        size += [row[2]] * 2
    profile = profile_of(Trace.from_columns(kind=kind, address=address, size=size))
    assert profile.ticks == 3
    assert "period" in profile.meta.notes["iterations"]


def test_an_empty_trace_gives_an_empty_profile():
    assert len(profile_of(Trace.from_columns(kind=[], address=[], size=[]))) == 0
