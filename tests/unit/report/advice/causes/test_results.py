"""Tests of evaluations that keep a graph, and of results that pile up."""

import pytest

from pgmo.profiler.profile import NEVER
from pgmo.report.advice.causes.results import collected_results, evaluation_with_gradients
from tests.unit.report.advice.recordings import facts


def forward_only(count, *, frees):
    """Return facts on a training iteration, and on a forward pass of `count` layers without one."""
    rows = [("layer 1", 40, 0, 2), ("backward", 40, 1, 3), ("other", 1, 2, 3)]
    for at in range(3, 3 + count):
        name = f"layer {1 + at % 2}"
        rows.append((name, 50, at, at + 2 if frees else 3 + count))
    return facts(*rows)


def test_an_evaluation_that_builds_a_graph():
    hint = evaluation_with_gradients(forward_only(10, frees=False))
    assert hint.bytes == 500 - 100  # a layer's input and output remain
    assert evaluation_with_gradients(forward_only(10, frees=True)) is None
    assert collected_results(forward_only(10, frees=False)) is None


@pytest.mark.parametrize("trained", ["layer 1", "logits"])
def test_a_recording_that_ends_within_a_forward_pass_is_no_evaluation(trained):
    def last(end):
        rows = [(trained, 40, 0, 2), ("backward", 40, 1, 3), ("other", 1, 2, 3)]
        return facts(*rows, *((f"layer {1 + at % 2}", 50, at, end) for at in range(3, 13)))

    assert evaluation_with_gradients(last(NEVER)) is None  # its backward pass may follow
    assert evaluation_with_gradients(last(13)).is_cause


@pytest.mark.parametrize("passes", [1, 2])
def test_a_step_that_is_skipped_is_no_evaluation(passes):
    rows = [("layer 1", 40, 0, 3), ("layer 2", 40, 1, 3), ("backward", 40, 2, 3)]
    for begin in range(3, 3 + 10 * passes, 10):
        rows += [(f"layer {1 + at % 2}", 50, begin + at, begin + 10) for at in range(10)]
    assert (evaluation_with_gradients(facts(*rows)) is None) == (passes == 1)


def test_blocks_that_a_forward_pass_without_a_graph_keeps():
    rows = [("layer 1", 40, 0, 2), ("backward", 40, 1, 3), ("other", 1, 2, 3)]
    for at in range(3, 63, 6):  # each layer keeps two of its six blocks
        rows += [(f"layer {1 + one % 2}", 50, at + one, at + one + 1) for one in range(4)]
        rows += [("keys", 50, at + 4, 63), ("layer 2", 50, at + 5, 63)]
    assert evaluation_with_gradients(facts(*rows)) is None


def test_a_forward_pass_of_a_program_that_never_trains_is_not_blamed():
    rows = [(f"layer {1 + at % 2}", 50, at, 10) for at in range(10)]
    assert evaluation_with_gradients(facts(*rows)) is None


def test_results_that_pile_up():
    spread = []
    for at in range(10):
        spread += [("logits", 50, 4 * at, 40)]
        spread += [("layer 1", 1, 4 * at + one, 4 * at + one + 1) for one in (1, 2, 3)]
    hint = collected_results(facts(*spread))
    assert hint.bytes == 501 - (10 * 5 + 1)
    assert evaluation_with_gradients(facts(*spread)) is None
    # Requests right after each other are no results of different batches.
    assert collected_results(facts(*[("logits", 50, at, 10) for at in range(10)])) is None


def test_blocks_of_several_lines_are_not_results_of_one():
    rows = []
    for at in range(0, 80, 4):
        rows += [(("logits", "scores")[at // 4 % 2], 50, at, 80)]
        rows += [("layer 1", 1, at + one, at + one + 1) for one in (1, 2, 3)]
    assert collected_results(facts(*rows)) is None


@pytest.mark.parametrize("passes", [1, 2])
def test_keys_of_each_layer_are_no_results(passes):
    rows = []
    for _ in range(passes):
        rows += [("embedding", 1, len(rows), len(rows) + 1)]
        for _ in range(8):
            at = len(rows)
            rows += [("keys", 50, at, NEVER)]
            rows += [("layer 1", 1, at + one, at + one + 1) for one in (1, 2, 3)]
    assert collected_results(facts(*rows)) is None
    # Without the embedding, each block may belong to a pass of its own.
    rows = [
        (name, size, at - 1, 32 if end == NEVER else end - 1) for name, size, at, end in rows[1:33]
    ]
    assert collected_results(facts(*rows)).is_cause
