"""Causes of a peak: which blocks each rule blames, and what its fix saves."""

from types import SimpleNamespace

import numpy as np
import pytest

from pgmo.profiler.profile import NEVER, Profile
from pgmo.profiler.tag import Tag
from pgmo.profiler.trace import Event, Trace
from pgmo.report.advice import RULES
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
    "own step": Tag("", "aten.sign", "optimizer", "lion.py:9 in step", ("lion.py:9 in step",)),
    "adam": Tag("", "", "optimizer", "", ("adam.py:9 in _multi_tensor_adam", "a.py:1 in f")),
    "copy": Tag("", "aten.clone", "other", "a.py:1 in f", ("copy.py:146 in deepcopy",)),
    "copy of parameter": Tag(
        "", "aten.clone", "other", "", ("parameter.py:9 in __deepcopy__", "copy.py:6 in deepcopy")
    ),
    "copied layer": Tag(
        "",
        "aten.clone",
        "other",
        "net.py:7 in __init__",
        (
            "parameter.py:9 in __deepcopy__",
            "copy.py:153 in deepcopy",
            "copy.py:271 in _reconstruct",
            "copy.py:172 in deepcopy",
            "transformer.py:1209 in <listcomp>",
            "transformer.py:1209 in _get_clones",
            "net.py:7 in __init__",
        ),
    ),
    "pixels": Tag("", "aten.nll_loss2d_backward", "backward"),
    "sequences": Tag("", "aten._ctc_loss", "forward"),
    "router": Tag("", "aten.addmm", "forward", "moe.py:2 in forward"),
    "embedding": Tag("", "aten.embedding", "forward", "model.py:3 in forward"),
    "keys": Tag("", "aten.cat", "forward", "cache.py:2 in update"),
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


@pytest.mark.parametrize("trained", ["layer 1", "logits"])
def test_a_recording_that_ends_within_a_forward_pass_is_no_evaluation(trained):
    def last(end):
        rows = [(trained, 40, 0, 2), ("backward", 40, 1, 3), ("other", 1, 2, 3)]
        return facts(*rows, *((f"layer {1 + at % 2}", 50, at, end) for at in range(3, 13)))

    assert evaluation_with_gradients(last(NEVER)) is None  # its backward pass may be to come
    assert evaluation_with_gradients(last(13)).is_cause


@pytest.mark.parametrize("passes", [1, 2])
def test_a_step_that_is_skipped_is_no_evaluation(passes):
    rows = [("layer 1", 40, 0, 3), ("layer 2", 40, 1, 3), ("backward", 40, 2, 3)]
    for begin in range(3, 3 + 10 * passes, 10):
        rows += [(f"layer {1 + at % 2}", 50, begin + at, begin + 10) for at in range(10)]
    assert (evaluation_with_gradients(facts(*rows)) is None) == (passes == 1)


def test_blocks_that_a_forward_pass_without_a_graph_keeps():
    rows = [("layer 1", 40, 0, 2), ("backward", 40, 1, 3), ("other", 1, 2, 3)]
    for at in range(3, 63, 6):  # of each layer's six blocks, a cache keeps two
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
    # One right after the other they are no results of different batches.
    assert collected_results(facts(*[("logits", 50, at, 10) for at in range(10)])) is None


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
    # Without the embedding, each block may be of a pass of its own.
    rows = [
        (name, size, at - 1, 32 if end == NEVER else end - 1) for name, size, at, end in rows[1:33]
    ]
    assert collected_results(facts(*rows)).is_cause


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


@pytest.mark.parametrize("name", ["adam", "own step"])
def test_only_optimizers_of_torch_have_the_arguments(name):
    hint = optimizer_temporaries(facts(*((name, 40, at, 8) for at in range(8))))
    assert (hint is None) == (name == "own step")


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_without_requests(name):
    at = NAMES.index(name)
    rows = [(Event.ALLOC, 64), (Event.FREE_REQUESTED, 64), (Event.FREE_COMPLETED, 64)]
    kind, address = zip(*rows, strict=True)
    trace = Trace.from_columns(
        kind=kind,
        address=address,
        size=[64] * 3,
        tag=[at, -1, -1],
        before=1,
        tags=tuple(TAGS.values()),
    )
    blocks = AllBlocks.of(SimpleNamespace(trace=trace))
    assert (blocks.peak, blocks.live.tolist()) == (0, [0])
    for rule in RULES[1:9]:
        assert rule(SimpleNamespace(blocks=blocks)) is None
