"""Tests of repetitions that are no iterations: layers, micro-batches, a backward pass."""

import gzip
import pickle
from pathlib import Path

import numpy as np
import pytest

from pgmo.errors import OptionError
from pgmo.profiler.importers.torch_memory.snapshot import read_torch_snapshot
from pgmo.profiler.iterations.from_trace import profile_of
from pgmo.profiler.trace import Event, MarkedBy
from pgmo.profiler.trace_blocks import live_peak
from pgmo.report.findings.leaks import find_leaks
from tests.unit.profiler import layered
from tests.unit.profiler.importers.snapshots import MIB, save, snapshot, step_annotations
from tests.unit.profiler.layered import Network

RECORDED = Path(__file__).parents[2] / "importers/recorded"
PEAKS = {  # Peak of requested bytes, as torch.cuda.memory_stats() reported it.
    "step": 359139336,
    "backward": 359139336,
    "recomputed_backward": 208261128,
    "five_inferences": 128251904,
}


PARTS = ("step", "forward", "backward")


def trace_of(tmp_path, network, annotations=()):
    saved = snapshot(network.device, annotations=annotations)
    (own,) = read_torch_snapshot(save(saved, tmp_path / "a.pickle"))
    return own.trace


def reported(profile):
    return profile.meta.notes["iterations"]


def holds_all(profile, trace):
    """Return whether a profile is linear and has all blocks that are live at the trace's peak."""
    everything = profile.max_load() + int(profile.size[profile.persistent].sum())
    return not profile.circular and everything >= live_peak(trace)


@pytest.mark.parametrize("annotated", [True, False])
def test_layers_of_a_recorded_step_are_no_iterations(tmp_path, annotated):
    saved = pickle.loads(gzip.decompress((RECORDED / "step.pickle.gz").read_bytes()))
    if not annotated:
        del saved["external_annotations"]
    (own,) = read_torch_snapshot(save(saved, tmp_path / "step.pickle"))
    profile = profile_of(own.trace)
    assert holds_all(profile, own.trace)
    assert reported(profile).startswith("one is marked" if annotated else "none that repeats")
    assert (
        "24 times 29 requests are not iterations: they are only 57%" in reported(profile)
    ) != annotated


def test_recorded_inferences_are_iterations():
    (own,) = read_torch_snapshot(RECORDED / "five_inferences.pickle.gz")
    profile = profile_of(own.trace)
    assert profile.circular
    assert 4 * profile.ticks > 0.7 * own.trace.requests
    assert profile.trace.marked_by == MarkedBy.PERIOD


@pytest.mark.parametrize("case", PEAKS)
def test_the_live_peak_is_what_pytorch_counts(case):
    (own,) = read_torch_snapshot(RECORDED / f"{case}.pickle.gz")
    assert live_peak(own.trace) == PEAKS[case]


@pytest.mark.parametrize(
    ("parts", "recompute", "stacks"),
    [
        *((parts, False, stacks) for parts in PARTS for stacks in (True, False)),
        *((parts, True, True) for parts in PARTS),
        ("step", True, False),
        ("backward", True, False),
    ],
)
def test_one_of_anything_has_no_iterations(tmp_path, parts, recompute, stacks):
    network = Network(stacks=stacks, recompute=recompute)
    if parts == "backward":
        network.forward()
        network.device.events.clear()
    getattr(network, parts)()
    trace = trace_of(tmp_path, network)
    assert holds_all(profile_of(trace), trace)


def test_a_backward_pass_that_computes_much_again_is_found_by_its_stacks(tmp_path):
    network = Network(recompute=True, kept=100, weight=1)
    network.forward()
    network.device.events.clear()
    network.backward()
    trace = trace_of(tmp_path, network)
    profile = profile_of(trace)
    assert holds_all(profile, trace)
    assert "all come from the backward pass" in reported(profile)


@pytest.mark.parametrize("stacks", [True, False])
@pytest.mark.parametrize("forgotten", [0, 40, 120])
def test_several_steps_are_iterations(tmp_path, stacks, forgotten):
    network = Network(stacks=stacks)
    for _ in range(6):
        network.step()
    network.device.forget(forgotten)
    profile = profile_of(trace_of(tmp_path, network))
    assert profile.circular
    assert profile.ticks == 2 + 24 * 3 + 1 + 24 * 2 + 1
    assert not profile.persistent.any()


def test_a_first_iteration_with_requests_of_its_own_counts_as_one(tmp_path):
    network = Network(layers=4)
    network.forward()
    network.backward()
    for size in range(12):  # optimizer state
        network.take(1000 + 512 * size, ())
    network.update()
    for _ in range(2):
        network.step()
    trace = trace_of(tmp_path, network)
    profile = profile_of(trace)
    assert profile.circular
    assert 2 * profile.ticks < 0.8 * trace.requests  # less than the least share of a period
    alike = f"of which 2 make the same {profile.ticks} requests"
    assert reported(profile) == f"3, {alike}, found by their period"


def accumulate(network, steps, micro_batches=16):
    annotations, note = step_annotations(network.device)
    for _ in range(steps):
        kept = [network.take(5 * MIB, ())]
        for _ in range(micro_batches):
            network.forward()
            network.backward()
        kept += [network.take(700 * MIB, ()), network.take(60 * MIB, ())]
        network.update()
        for address in kept:
            network.device.free(address)
        note(0)
    return annotations


def test_micro_batches_of_one_step_are_no_iterations(tmp_path):
    network = Network(layers=3)
    annotations = accumulate(network, 1)
    marked, plain = trace_of(tmp_path, network, annotations), trace_of(tmp_path, network)
    assert reported(profile_of(marked)).startswith("one is marked")
    assert "lies outside them" in reported(profile_of(plain))
    assert holds_all(profile_of(marked), marked)
    assert holds_all(profile_of(plain), plain)


def test_micro_batches_of_marked_steps_are_no_iterations(tmp_path):
    network = Network(layers=3)
    annotations, note = step_annotations(network.device)
    for count in (5, 40, 9):
        for _ in range(count):
            network.forward(keep=False)
        note(0)
    profile = profile_of(trace_of(tmp_path, network, annotations))
    assert profile.ticks > 11
    assert reported(profile).endswith("by the marks in the trace")
    assert profile_of(trace_of(tmp_path, network)).circular  # without marks


def test_a_step_that_ran_out_of_memory_is_one_step(tmp_path):
    network = Network(stacks=False)
    network.forward(keep=False)
    annotations, note = step_annotations(network.device)
    note(0)
    network.device.out_of_memory(2**33)
    trace = trace_of(tmp_path, network, annotations[:1])
    assert reported(profile_of(trace)).startswith("one is marked")


def test_a_single_profiler_step_does_not_hide_the_optimizer_steps(tmp_path):
    network = Network(layers=2)
    begin = {"stage": "START", "name": "ProfilerStep#0", "device": 0}
    annotations, note = step_annotations(network.device)
    annotations.append({**begin, "time_us": network.device.clock + 10})
    for _ in range(4):
        network.step()
        note(0)
    profile = profile_of(trace_of(tmp_path, network, annotations))
    assert reported(profile).endswith("by the marks in the trace")


def test_the_whole_by_hand(tmp_path):
    network = Network()
    for _ in range(6):
        network.step()
    trace = trace_of(tmp_path, network)
    profile = profile_of(trace, whole=True)
    assert holds_all(profile, trace)
    assert profile.ticks == trace.requests
    assert reported(profile) == f"none, by choice; all {trace.requests} requests as one sequence"
    with pytest.raises(OptionError, match="or one iteration, not both"):
        profile_of(trace, whole=True, iteration=0)


def test_one_marked_iteration_by_hand(tmp_path):
    network = Network(layers=4)
    annotations, note = step_annotations(network.device)
    for kept in (8, 2, 8, 5):
        network.kept = kept
        network.step()
        note(0)
    trace = trace_of(tmp_path, network, annotations)
    loads = [profile_of(trace, iteration=number).max_load() for number in (-1, 0, 1, 2)]
    assert loads[0] == loads[2] > loads[3] > loads[1]
    assert reported(profile_of(trace, iteration=-1)).startswith("4, of which 2 make the same ")
    alone = profile_of(trace, iteration=0)
    assert reported(alone) == f"1 with {alone.ticks} requests, number 0, chosen by hand"
    assert not alone.steady
    assert not alone.persistent.any()
    with pytest.raises(OptionError, match=r"iteration 3 is not .* requests are -1 to 2"):
        profile_of(trace, iteration=3)


def test_one_step_by_hand_where_only_one_is_marked(tmp_path):
    network = Network()
    annotations, note = step_annotations(network.device)
    network.step()
    note(0)
    trace = trace_of(tmp_path, network, annotations)
    profile = profile_of(trace, iteration=-1)
    assert profile.circular
    assert profile.ticks == trace.requests
    assert profile.max_load() == live_peak(trace)


def test_a_refused_guess_can_be_chosen_by_hand(tmp_path):
    network = Network(stacks=False)
    network.forward()
    network.device.events.clear()
    network.backward()
    trace = trace_of(tmp_path, network)
    assert not profile_of(trace).circular
    profile = profile_of(trace, iteration=2)
    assert profile.circular
    assert profile.ticks == 2
    assert profile.trace.marked_by == MarkedBy.PERIOD
    assert (profile.trace.kind == Event.MARK).any()


def test_nothing_to_choose_from(tmp_path):
    network = Network()
    for size in np.arange(1, 9) * 1000:
        network.take(int(size), ())
    with pytest.raises(OptionError, match="no marks, and no period covers half of its requests"):
        profile_of(trace_of(tmp_path, network), iteration=0)


def test_a_loop_that_keeps_a_little_is_taken_for_iterations_and_its_leak_is_not_certain(tmp_path):
    # Without stacks, layers that keep their input look like iterations that leak it.
    network = Network(stacks=False, recompute=True)
    network.forward()
    profile = profile_of(trace_of(tmp_path, network))
    assert profile.circular
    (leak,) = find_leaks(profile).found
    assert (leak.growth, leak.confidence) == (MIB / 2, "likely")


@pytest.mark.parametrize("outermost", ["<module>", "_call_impl", "serve"])
def test_a_deep_program_has_iterations_as_a_shallow_one(tmp_path, monkeypatch, outermost):
    deep = [(f"f{n}", f"/home/someone/deep{n}.py", n) for n in range(150)]
    monkeypatch.setattr(layered, "ROOT", (*deep, (outermost, "/home/someone/main.py", 3)))
    network = Network(layers=6)
    for _ in range(6):
        for at in range(7):  # no module's frame distinguishes layers from iterations
            held = network.take((at + 1) * MIB, (("f", "/home/someone/a.py", at), *layered.ROOT))
            network.device.free(held)
    profile = profile_of(trace_of(tmp_path, network))
    assert (profile.circular, profile.ticks) == (True, 7)
