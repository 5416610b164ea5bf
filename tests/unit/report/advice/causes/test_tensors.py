"""Tests of causes that are tensors of one kind."""

import pytest

from pgmo.report.advice.causes.tensors import (
    attention_scores,
    broadcast_differences,
    full_logits,
    grown_by_cat,
    one_hot,
    repeated_tensors,
    wide_copies,
)
from tests.unit.report.advice.recordings import facts


def test_logits_of_all_tokens():
    hint = full_logits(facts(("logits", 50, 0, 3), ("log", 100, 1, 3), ("other", 8, 2, 3)))
    assert hint.is_cause
    assert hint.bytes == 158 - (50 // 16 + 100 // 16 + 8)
    assert "(at model.py:10 in forward)" in hint.text
    assert full_logits(facts(("logits", 50, 0, 2), ("other", 100, 1, 2))) is None


def test_logits_of_pixels_and_of_sequences():
    rows = ("logits", 50, 0, 3), ("log", 100, 1, 3)
    text = full_logits(facts(*rows, ("pixels", 100, 2, 3))).text
    assert "of all pixels at once" in text
    assert "token" not in text
    assert full_logits(facts(*rows, ("sequences", 8, 2, 3))) is None


def test_logits_of_which_little_would_be_saved():
    assert full_logits(facts(("log", 5, 0, 2), ("other", 100, 1, 2))) is None


def test_one_hot_matrices():
    hint = one_hot(facts(("one_hot", 80, 0, 2), ("other", 20, 1, 2)))
    assert hint.bytes == 80
    assert "loss.py:3 in pick" in hint.text


def test_tensors_that_are_repeated():
    assert repeated_tensors(facts(("repeated", 80, 0, 2), ("other", 20, 1, 2))).bytes == 80


@pytest.mark.parametrize("layers", [1, 2, 4])
def test_scores_of_several_layers(layers):
    rows = [
        row
        for at in range(layers)
        for row in (("scores", 64, 2 * at, 2 * at + 2), ("softmax", 64, 2 * at + 1, 2 * layers))
    ]
    hint = attention_scores(facts(*rows))
    assert (hint is None) == (layers == 1)  # a single softmax may be one of classes
    if hint is not None:
        assert hint.bytes == 64 * (layers + 1)


@pytest.mark.parametrize("product", ["router", "scores"])
def test_softmax_of_experts_is_no_attention(product):
    rows = [("scores", 64, 0, 1)]
    for at in range(1, 9, 2):
        rows += [(product, 64, at, at + 2), ("softmax", 64, at + 1, 9)]
    assert (attention_scores(facts(*rows)) is None) == (product == "router")


def test_a_softmax_long_after_a_product_is_no_attention():
    rows = [("scores", 64, 0, 1), *(("other", 8, at, at + 1) for at in range(1, 11))]
    rows += [("softmax", 64, at, 15) for at in range(11, 15)]
    assert attention_scores(facts(*rows)) is None


@pytest.mark.parametrize("late", [0, 3])
def test_a_tensor_that_grows_by_concatenation(late):
    rows, names = [], 0
    for step in range(6):
        rows.append(("joined", 10 * (step + 1), names, names + 5 + late))
        rows += [("layer 1", 1, names + one, names + one + 1) for one in range(1, 4)]
        names += 4
    end = len(rows)
    hint = grown_by_cat(facts(*((name, size, at, min(to, end)) for name, size, at, to in rows)))
    assert (hint is None) == (late > 0)  # a tensor that lives on may be needed
    if hint is not None:
        assert hint.bytes == 110 - 61  # the last tensor, and a block of the pass


@pytest.mark.parametrize("operand", [8, 40])
def test_a_broadcast_that_is_summed_at_once(operand):
    rows = ("layer 1", operand, 0, 4), ("difference", 80, 1, 4), ("square", 80, 2, 4)
    hint = broadcast_differences(facts(*rows, ("sum", 8, 3, 4)))
    assert (hint is None) == (operand == 40)
    if hint is not None:
        assert hint.bytes == 160
    assert broadcast_differences(facts(*rows, ("other", 8, 3, 4))) is None


@pytest.mark.parametrize("name", ["wide", "cast"])
def test_copies_in_a_wider_type(name):
    rows = []
    for layer in range(3):
        rows += [("layer 1", 20, 2 * layer, 6), (name, 40, 2 * layer + 1, 8)]
    rows += [(name, 10, 6, 8), ("backward", 8, 7, 9), ("backward", 8, 8, 9)]  # and a cast back
    hint = wide_copies(facts(*rows))
    assert (hint is None) == (name == "cast")  # autocast makes these casts
    if hint is not None:
        assert hint.bytes == 60  # the sources, half as large, remain
