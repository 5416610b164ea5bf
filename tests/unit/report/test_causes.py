"""Causes of a peak: which blocks each rule blames, and what its fix saves."""

from types import SimpleNamespace

import numpy as np
import pytest

from pgmo.profiler.profile import NEVER, Profile
from pgmo.profiler.tag import Tag
from pgmo.report.advice.all_blocks import AllBlocks
from pgmo.report.advice.causes.attention_scores import attention_scores
from pgmo.report.advice.causes.collected_results import collected_results
from pgmo.report.advice.causes.evaluation_with_gradients import evaluation_with_gradients
from pgmo.report.advice.causes.full_logits import full_logits
from pgmo.report.advice.causes.late_zero_grad import late_zero_grad
from pgmo.report.advice.causes.model_copies import model_copies
from pgmo.report.advice.causes.one_hot import one_hot
from pgmo.report.advice.causes.optimizer_temporaries import optimizer_temporaries

TAGS = {
    "logits": Tag("", "aten.mm", "forward", "model.py:9 in forward"),
    "log": Tag("", "aten._log_softmax", "forward", "model.py:10 in forward"),
    "one_hot": Tag("", "aten.one_hot", "forward", "loss.py:3 in pick"),
    "softmax": Tag("", "aten._softmax", "forward", "attention.py:5 in attend"),
    "scores": Tag("", "aten.bmm", "forward", "attention.py:4 in attend"),
    "layer 1": Tag("", "aten.addmm", "forward", "model.py:1 in forward"),
    "layer 2": Tag("", "aten.gelu", "forward", "model.py:2 in forward"),
    "backward": Tag("", "aten.mm", "backward"),
    "step": Tag("", "aten._foreach_sqrt", "optimizer"),
    "copy": Tag("", "aten.clone", "other", "a.py:1 in f", ("copy.py:146 in deepcopy",)),
    "other": Tag("", "aten.randn", "other", "train.py:3 in loop"),
}
NAMES = list(TAGS)


def facts(*rows):
    """Facts on a recording of rows (name, bytes, start, end)."""
    name, size, start, end = zip(*rows, strict=True)
    profile = Profile.from_columns(
        size=size,
        start=start,
        end=end,
        ticks=len(rows),
        tag=[NAMES.index(one) for one in name],
        tags=tuple(TAGS.values()),
    )
    return SimpleNamespace(blocks=AllBlocks.of(profile))


def test_a_saving_is_the_difference_of_two_peaks():
    blocks = facts(("other", 100, 0, 1), ("log", 70, 1, 3), ("log", 50, 2, 3)).blocks
    assert (blocks.peak, blocks.live.tolist()) == (120, [100, 70, 120])
    assert blocks.at_peak.tolist() == [False, True, True]
    assert blocks.saving(blocks.by_operator("softmax")) == 20  # then the first block is the peak
    assert blocks.saving(np.array([False, False, True]), left=0.9) == 5
    assert blocks.saving_until(np.array([1, 2, 3])) == 20
    assert blocks.place(blocks.at_peak) == " (at model.py:10 in forward)"


def test_blocks_that_nothing_frees_stay():
    blocks = facts(("other", 8, 0, NEVER), ("log", 4, 1, 2)).blocks
    assert blocks.stays.tolist() == [True, False]
    assert blocks.end.tolist() == [2, 2]


def test_logits_of_all_tokens():
    hint = full_logits(facts(("logits", 50, 0, 3), ("log", 100, 1, 3), ("other", 8, 2, 3)))
    assert hint.is_cause
    assert hint.bytes == 158 - (50 // 16 + 100 // 16 + 8)
    assert "(at model.py:10 in forward)" in hint.text
    assert full_logits(facts(("logits", 50, 0, 2), ("other", 100, 1, 2))) is None


def test_logits_of_which_little_would_be_saved():
    assert full_logits(facts(("log", 5, 0, 2), ("other", 100, 1, 2))) is None


def test_one_hot_matrices():
    hint = one_hot(facts(("one_hot", 80, 0, 2), ("other", 20, 1, 2)))
    assert hint.bytes == 80
    assert "loss.py:3 in pick" in hint.text


@pytest.mark.parametrize("layers", [1, 2, 4])
def test_scores_of_several_layers(layers):
    rows = [
        row
        for at in range(layers)
        for row in (("scores", 64, 2 * at, 2 * at + 2), ("softmax", 64, 2 * at + 1, 2 * layers))
    ]
    hint = attention_scores(facts(*rows))
    assert (hint is None) == (layers == 1)  # a softmax of classes is no attention
    if hint is not None:
        assert hint.bytes == 64 * (layers + 1)


def forward_only(count, *, frees):
    """An iteration of training, and a forward pass of so many layers without a backward pass."""
    rows = [("layer 1", 40, 0, 2), ("backward", 40, 1, 3), ("other", 1, 2, 3)]
    for at in range(3, 3 + count):
        name = f"layer {1 + at % 2}"
        rows.append((name, 50, at, at + 2 if frees else 3 + count))
    return facts(*rows)


def test_an_evaluation_that_builds_a_graph():
    hint = evaluation_with_gradients(forward_only(10, frees=False))
    assert hint.bytes == 500 - 100  # what a layer reads and writes stays
    assert evaluation_with_gradients(forward_only(10, frees=True)) is None
    assert collected_results(forward_only(10, frees=False)) is None


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
    # One right after the other they are no results of different batches.
    assert collected_results(facts(*[("logits", 50, at, 10) for at in range(10)])) is None


def test_deep_copies():
    hint = model_copies(facts(("other", 60, 0, 3), ("copy", 30, 1, 3), ("copy", 10, 2, 3)))
    assert hint.bytes == 40


def iterations(*, late, accumulated=False):
    """Three iterations whose gradients live through the next forward pass, or not."""
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


def test_temporaries_of_a_step_but_not_its_state():
    state = ("step", 50, 0, NEVER)
    temporaries = [("step", 40, at, 9) for at in range(1, 9)]
    assert optimizer_temporaries(facts(state, *temporaries)).bytes == 240  # two are left
    assert optimizer_temporaries(facts(state, ("other", 30, 1, 2))) is None
