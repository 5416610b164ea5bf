"""Profiles of genuine snapshots of a transformer, whose layers repeat like iterations."""

import pytest
import torch

from pgmo.profiler.importers.formats import read_file
from pgmo.profiler.iterations.from_trace import profile_of
from pgmo.profiler.trace import Event
from pgmo.profiler.trace_blocks import live_peak
from pgmo.report.findings.leaks import find_leaks
from tests import forked
from tests.fakecuda import record_snapshots
from tests.fakecuda.programs import ROOT, run_command

ITERATIONS = {"five_steps": 4, "five_inferences": 5}
"""Number of equal iterations of each case; other cases have one iteration."""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder, peaks = tmp_path_factory.mktemp("snapshots"), {}

    def record(case: str):
        path = folder / f"{case}.pickle"
        if case not in peaks:
            peaks[case] = run_command(ROOT, record_snapshots.__file__, case, str(path))["peak"]
        (own,) = read_file(path)
        return own.trace, peaks[case]

    return record


QUICK = ("five_steps", "forward")


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=() if case in QUICK else pytest.mark.slow)
        for case in record_snapshots.CASES
    ],
)
def test_layers_are_no_iterations(recorded, case):
    trace, peak = recorded(case)
    profile = profile_of(trace)
    assert live_peak(trace) == peak
    assert profile.circular == (case in ITERATIONS)
    if case in ITERATIONS:
        alike = ITERATIONS[case]
        beginnings = (f"{alike} with ", f"{alike + 1}, of which {alike} make the same ")
        assert profile.meta.notes["iterations"].startswith(beginnings)
        assert ITERATIONS[case] * profile.ticks > 0.7 * trace.requests
    else:
        everything = profile.max_load() + int(profile.size[profile.persistent].sum())
        assert everything >= peak
    assert not find_leaks(profile).found


def test_a_step_that_is_marked_can_be_chosen(recorded):
    trace, _ = recorded("five_steps")
    assert (trace.kind == Event.MARK).any()  # PyTorch records annotations from 2.7 on
    found = profile_of(trace)
    for number in range(4):
        assert profile_of(trace, iteration=number).max_load() == found.max_load()
    assert profile_of(trace, iteration=-1).ticks > found.ticks  # allocates optimizer state
    assert not profile_of(trace, whole=True).circular


def test_pinned_memory_of_the_host_is_read(tmp_path):
    program = f"""
import torch
torch.cuda.memory._record_memory_history(record_pinned_host_memory=True)
kept = torch.zeros(1000, device="cuda")
pinned = [torch.zeros(size, pin_memory=True) for size in (1000, 4000)]
torch.cuda.memory._dump_snapshot({str(tmp_path / "a.pickle")!r})
"""
    ended = forked.run(program)
    if "record_pinned_host_memory" in ended.errors:
        pytest.skip(f"PyTorch {torch.__version__} records no memory of the host")
    assert ended.exit_code == 0, ended.errors
    (own,) = read_file(tmp_path / "a.pickle")
    assert (own.device, own.trace.requests) == ("cuda:0", 1)
    (host,) = read_file(tmp_path / "a.pickle", device=-1)
    assert (host.device, host.trace.requests) == ("cpu", 2)
    assert live_peak(host.trace) >= 4 * 5000
