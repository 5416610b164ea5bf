"""Tests of causes that are further copies of weights."""

import random
import sys

import numpy as np
import pytest

from pgmo.profiler.profile import NEVER
from pgmo.report.advice.causes.copies import (
    _sequence_twice,
    cloned_weights,
    loaded_checkpoint,
    model_copies,
    model_without_gradients,
)
from tests.unit.report.advice.recordings import facts, model, passes, placed


def test_deep_copies():
    rows = ("other", 60, 0, 3), ("copy", 30, 1, NEVER), ("copy of parameter", 10, 2, 3)
    assert model_copies(facts(*rows)).bytes == 40


def test_layers_that_are_made_as_copies_of_one_are_no_copies_of_the_model():
    assert model_copies(facts(("other", 60, 0, 3), ("copied layer", 30, 1, NEVER))) is None


@pytest.mark.parametrize("passes", [1, 2])
def test_deep_copies_of_a_batch_live_through_one_backward_pass(passes):
    rows = [("layer 1", 8, 0, 1), ("copy", 40, 1, 2 + 2 * passes)]
    for at in range(2, 2 + 2 * passes, 2):
        rows += [("layer 1", 8, at, at + 1), ("backward", 8, at + 1, at + 2)]
    rows += [("layer 1", 8, len(rows), len(rows) + 1)]
    assert (model_copies(facts(*rows)) is None) == (passes == 1)


@pytest.mark.parametrize("sizes", [0, 1])
def test_clones_of_weights(sizes):
    clones = [("clone", size + sizes, end) for _, size, end in model("clone")]
    hint = cloned_weights(facts(*passes(3, placed(*model("weight"), *clones))))
    assert (hint is None) == bool(sizes)  # clones of other sizes are no clones of weights
    if hint is not None:
        assert hint.bytes == sum(size for _, size, _ in clones)


@pytest.mark.parametrize("trained", [1, 2])
def test_a_second_model_without_gradients(trained):
    rows = placed(*model("weight"), *model("weight"))
    for _ in range(3):
        at, count = len(rows), 8 * trained
        rows.append(("layer 1", 8, at, at + 1))
        rows += [("backward", 40 + one % 8, at + 1 + one, at + 2 + count) for one in range(count)]
        rows.append(("other", 1, at + 1 + count, at + 2 + count))
    hint = model_without_gradients(facts(*rows))
    assert (hint is None) == (trained == 2)
    if hint is not None:
        assert hint.bytes == sum(range(40, 48))


def test_equal_layers_of_which_half_are_frozen_are_no_second_model():
    layers = [(name, 40 + at % 4, end) for at, (name, _, end) in enumerate(model("weight") * 2)]
    assert model_without_gradients(facts(*passes(3, placed(*layers)))) is None


def test_a_sequence_that_comes_twice_is_the_longest_one():
    def by_trial(sizes):
        for length in range(len(sizes) // 2, 7, -1):
            for begin in range(len(sizes) - 2 * length + 1):
                both = sizes[begin : begin + 2 * length]
                if (both[:length] == both[length:]).all() and both.sum() >= 0.95 * sizes.sum():
                    return begin, begin + length
        return None

    draw, found = random.Random(7), 0
    for _ in range(300):
        part = [draw.randrange(1, 4) for _ in range(draw.randrange(1, 24))]
        around = [[draw.randrange(1, 4) for _ in range(draw.randrange(3))] for _ in range(2)]
        sizes = np.array([*around[0], *part, *part, *around[1]], np.int64)
        assert _sequence_twice(sizes) == by_trial(sizes)
        found += by_trial(sizes) is not None
    assert 30 < found < 270
    assert _sequence_twice(np.array([5], np.int64)) is None


@pytest.mark.parametrize("large", [200, 1 << 20])
def test_many_equal_weights_and_a_large_one_take_few_calls(large):
    calls = 0

    def count(_frame, event, _argument):
        nonlocal calls
        calls += event == "c_call"

    sizes = np.array([1] * 2000 + [large], np.int64)
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        found = _sequence_twice(sizes)
    finally:
        sys.setprofile(before)
    assert found is None
    assert calls < 40 * len(sizes)


@pytest.mark.parametrize("state", [False, True])
def test_a_loaded_checkpoint_that_the_optimizer_may_use(state):
    own = [("state", size, end) for _, size, end in model("state")] * state
    rows = placed(*model("weight"), *model("loaded"), *own)
    hint = loaded_checkpoint(facts(*passes(3, rows)))
    assert (hint is None) == (not state)
    if hint is not None:
        assert hint.bytes == sum(range(40, 48))


def test_a_loaded_checkpoint_of_model_and_optimizer():
    rows = placed(*model("weight"), *model("loaded") * 3)
    assert loaded_checkpoint(facts(*passes(3, rows))).bytes == sum(range(40, 48))


@pytest.mark.parametrize(("before", "lives"), [(None, 0), ("copy in step", 2), ("other", 1)])
def test_a_loaded_checkpoint_whose_tensors_each_step_copies_from_the_host(before, lives):
    sizes = range(40, 56, 2)
    both = [(name, size, NEVER) for name in ("weight", "loaded") for size in sizes]
    rows = passes(1, placed(*both))
    for _ in range(2):
        for size in sizes:
            if before is not None:  # a cast on the device, or an unrelated block
                rows.append((before, size // 2, len(rows), len(rows) + lives))
            rows.append(("copy in step", size, len(rows), len(rows) + 1))
        rows = passes(1, rows)
    hint = loaded_checkpoint(facts(*rows))
    assert (hint is None) == (before == "copy in step")
    if hint is not None:
        assert hint.bytes == sum(sizes)
