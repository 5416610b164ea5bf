"""Tests of causes in the training step: gradients, graphs and the optimizer."""

from types import SimpleNamespace

import numpy as np
import pytest

from pgmo.profiler.profile import NEVER
from pgmo.report.advice.all_blocks import AllBlocks
from pgmo.report.advice.causes.training import (
    growing_graphs,
    late_zero_grad,
    optimizer_temporaries,
    retained_graph,
    wide_state,
    zeroed_gradients,
)
from tests.unit.report.advice.recordings import facts


def iterations(*, late, accumulated=False):
    """Return facts on three iterations; if `late`, gradients live through the next forward pass."""
    rows = []
    for number in range(3):
        begin = 3 * number
        end = begin + 3 + 2 * late + 2 * accumulated
        rows += [("layer 1", 100, begin, begin + 3), ("layer 2", 100, begin + 1, begin + 2)]
        rows += [("backward", 60, begin + 2, min(end, 9))]
    return facts(*rows)


def test_gradients_that_live_through_a_forward_pass():
    hint = late_zero_grad(iterations(late=True))
    assert hint.bytes == 260 - 200
    assert late_zero_grad(iterations(late=False)) is None
    assert late_zero_grad(iterations(late=True, accumulated=True)) is None


def optimizer_steps(freed):
    """Return facts on four steps, with gradients that each step frees, or that stay."""
    rows = [("weight", 60, 0, 13)]
    for step in range(4):
        at = len(rows)
        rows += [("layer 1", 100, at, at + 2), ("backward", 60, at + 1, at + 2 if freed else 13)]
        rows += [("other", 1, at + 2, at + 3)]
        if not freed and step:
            rows[-2] = ("backward", 60, at + 1, at + 2)
    found = facts(*rows)
    blocks = found.blocks
    marks = np.array([3, 6, 9, 12])
    own = AllBlocks(
        blocks.size, blocks.start, blocks.end, blocks.tag, blocks.stays, blocks.tags, marks
    )
    notes = {"marks": "the end of Optimizer.step#SGD.step"}
    return SimpleNamespace(
        blocks=own, profile=SimpleNamespace(meta=SimpleNamespace(notes=notes), trace=None)
    )


def test_gradients_that_are_set_to_zero():
    assert zeroed_gradients(optimizer_steps(freed=False)).bytes == 60
    assert zeroed_gradients(optimizer_steps(freed=True)) is None
    unknown = optimizer_steps(freed=False)
    unknown.profile.meta.notes.clear()
    assert zeroed_gradients(unknown) is None  # without marks, gradients may be accumulated


@pytest.mark.parametrize("at_once", [True, False])
def test_a_graph_that_outlives_its_backward_pass(at_once):
    names = ["layer 1", "layer 2", "softmax", "scores"] * 2
    rows = []
    for _ in range(4):
        at = len(rows)
        for number, name in enumerate(names):
            rows.append((name, 50, at + number, at + 19 + (0 if at_once else number)))
        rows += [("backward", 1, at + 8 + one, at + 9 + one) for one in range(3)]
    end = len(rows)
    hint = retained_graph(facts(*((name, size, at, min(to, end)) for name, size, at, to in rows)))
    assert (hint is None) == (not at_once)
    if hint is not None:
        assert 350 <= hint.bytes <= 450


@pytest.mark.parametrize("stay", [True, False])
def test_forward_passes_that_stay(stay):
    rows = []
    for _ in range(8):
        at = len(rows)
        rows += [
            ("layer 1", 50, at, NEVER if stay else at + 3),
            ("layer 2", 50, at + 1, NEVER if stay else at + 3),
            ("backward", 1, at + 2, at + 3),
        ]
    found = facts(*rows)
    found.explanation = SimpleNamespace(leaks=SimpleNamespace(found=()))
    hint = growing_graphs(found)
    assert (hint is None) == (not stay)
    if hint is not None:
        assert hint.bytes == 700
        found.explanation.leaks.found = (1,)
        assert growing_graphs(found) is None  # a leak that is reported already


def test_temporaries_of_a_step_but_not_its_state():
    state = ("step", 50, 0, NEVER)
    temporaries = [("step", 40, at, 9) for at in range(1, 9)]
    assert optimizer_temporaries(facts(state, *temporaries)).bytes == 240  # of 8, 2 remain
    assert optimizer_temporaries(facts(state, ("other", 30, 1, 2))) is None


@pytest.mark.parametrize("name", ["adam", "own step"])
def test_only_optimizers_of_torch_have_the_arguments(name):
    hint = optimizer_temporaries(facts(*((name, 40, at, 8) for at in range(8))))
    assert (hint is None) == (name == "own step")


@pytest.mark.parametrize("cast", ["cast", "cast to float8", "layer 1"])
@pytest.mark.parametrize("per_weight", [1, 2])
@pytest.mark.parametrize("activations", [1, 1_000_000])
def test_state_of_adam_in_float32(cast, per_weight, activations):
    size = 65536
    rows = [("weight", size, 0, NEVER), ("weight", size, 1, NEVER), ("layer 1", activations, 2, 3)]
    rows += [(cast, size // 2, 3, 5), ("backward", size, 4, 5)]
    rows += [("state", size, at, NEVER) for at in range(5, 5 + 2 * per_weight)]
    at = len(rows)
    rows += [(cast, size // 2, at, at + 2), ("backward", 1, at + 1, at + 2)]
    hint = wide_state(facts(*rows))
    assert (hint is not None) == (cast == "cast" and per_weight == 2 and activations == 1)
    if hint is not None:
        left = size // 4 + size // 256
        assert hint.bytes == 4 * (size - left)
        assert hint.changes_results
