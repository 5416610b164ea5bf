"""Tests of the category of each block of a history."""

from pgmo.fit.categories import NAMES, categorise, dispensable, step_begins
from pgmo.fit.laws.load import Load
from pgmo.profiler.iterations.from_trace import profile_of
from pgmo.profiler.trace import Event, Trace
from tests.unit.fit.loops import LAYERS, MIB, PER_SAMPLE, WEIGHT, history


def test_blocks_of_a_loop_are_distinguished() -> None:
    trace, known = history(3)
    category = categorise(trace, known)
    counts = {name: int((category == at).sum()) for at, name in enumerate(NAMES)}
    assert counts == {
        "parameters": LAYERS,
        "gradients": 3 * LAYERS,  # of each of three iterations
        "optimizer_state": 2 * LAYERS,
        "activations": 3 * LAYERS,
        "workspaces": 3 * LAYERS,
    }


def test_categories_at_the_peak_add_up_to_it() -> None:
    trace, known = history(8)
    load = Load(profile_of(trace, whole=True), categorise(trace, known))
    assert sum(load.at_peak.values()) == load.peak
    assert load.at_peak["parameters"] == LAYERS * WEIGHT
    assert load.at_peak["optimizer_state"] == 2 * LAYERS * WEIGHT
    assert load.at_peak["activations"] == LAYERS * 8 * PER_SAMPLE
    assert load.curves[NAMES.index("gradients")].max() == LAYERS * WEIGHT


def test_a_block_that_a_library_keeps_is_a_workspace() -> None:
    rows = [(Event.ALLOC, 512, 8 * MIB), (Event.MARK, 0, 0), (Event.ALLOC, 32 * MIB, 8 * MIB)]
    kind, address, size = zip(*rows, strict=True)
    trace = Trace.from_columns(kind=kind, address=address, size=size)
    found = categorise(trace, {"parameters": [], "states": [], "marked": []})
    assert [NAMES[one] for one in found] == ["workspaces", "activations"]


def test_a_workspace_of_a_convolution_is_found_in_its_order() -> None:
    kind = [Event.ALLOC, Event.ALLOC, Event.FREE_COMPLETED, Event.ALLOC, Event.FREE_COMPLETED]
    trace = Trace.from_columns(
        kind=kind, address=[512, 8192, 8192, 8192, 8192], size=[64, 128, 128, 512, 512]
    )
    # The workspace has at least 500 bytes, so that it is not the block of 128 bytes.
    assert dispensable(trace, {"convolutions": [[8192, 500, 3]]}).tolist() == [-1, -1, 3]
    assert dispensable(trace, {}).tolist() == [-1, -1, -1]


def test_steps_begin_where_their_marks_are() -> None:
    trace, known = history(2)
    profile = profile_of(trace, whole=True)
    # In each step, a layer requests an activation, a workspace and a gradient.
    begins = step_begins(trace, known | {"ended": [0, 1, 2]})
    assert begins == (profile.ticks - 6 * LAYERS, profile.ticks - 3 * LAYERS)
    assert step_begins(trace, known | {"ended": [0]}) is None
