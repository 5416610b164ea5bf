"""Causes of a peak: which blocks each rule blames, and what its fix saves."""

import random
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from pgmo.profiler.profile import NEVER, Profile
from pgmo.profiler.tag import Tag
from pgmo.profiler.trace import Event, Trace
from pgmo.report.advice import RULES
from pgmo.report.advice.all_blocks import AllBlocks
from pgmo.report.advice.causes.allocator_settings import allocator_settings
from pgmo.report.advice.causes.collected_results import collected_results
from pgmo.report.advice.causes.copies.loaded_checkpoint import loaded_checkpoint
from pgmo.report.advice.causes.copies.model_copies import model_copies
from pgmo.report.advice.causes.copies.second_weights import (
    _sequence_twice,
    cloned_weights,
    model_without_gradients,
)
from pgmo.report.advice.causes.evaluation_with_gradients import evaluation_with_gradients
from pgmo.report.advice.causes.gradients.gradient_buckets import gradient_buckets
from pgmo.report.advice.causes.gradients.growing_graphs import growing_graphs
from pgmo.report.advice.causes.gradients.late_zero_grad import late_zero_grad
from pgmo.report.advice.causes.gradients.one_unit import one_unit
from pgmo.report.advice.causes.gradients.optimizer_temporaries import optimizer_temporaries
from pgmo.report.advice.causes.gradients.retained_graph import retained_graph
from pgmo.report.advice.causes.gradients.zeroed_gradients import zeroed_gradients
from pgmo.report.advice.causes.tensors.attention_scores import attention_scores
from pgmo.report.advice.causes.tensors.broadcast_differences import broadcast_differences
from pgmo.report.advice.causes.tensors.full_logits import full_logits
from pgmo.report.advice.causes.tensors.grown_by_cat import grown_by_cat
from pgmo.report.advice.causes.tensors.one_hot import one_hot
from pgmo.report.advice.causes.tensors.repeated_tensors import repeated_tensors
from pgmo.report.advice.causes.tensors.wide_copies import wide_copies
from pgmo.report.advice.trouble import leaking

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
    "repeated": Tag("", "aten.repeat", "forward", "mask.py:3 in forward"),
    "joined": Tag("", "aten.cat", "other", "collect.py:3 in loop"),
    "clone": Tag("", "aten.clone", "other", "average.py:3 in begin", ("average.py:3 in begin",)),
    "weight": Tag("", "aten._to_copy", "other", "train.py:1 in main"),
    "loaded": Tag(
        "", "", "other", "train.py:2 in main", ("serialization.py:9 in restore_location",)
    ),
    "state": Tag("", "aten.zeros_like", "optimizer"),
    "bucket": Tag("", "aten.empty", "forward", "", ("distributed.py:9 in _pre_forward",)),
    "gathered": Tag("", "", "forward", "", ("_fsdp_param.py:9 in alloc_all_gather_outputs",)),
    "difference": Tag("", "aten.sub", "other", "pairs.py:1 in distances"),
    "square": Tag("", "aten.pow", "other", "pairs.py:1 in distances"),
    "sum": Tag("", "aten.sum", "other", "pairs.py:1 in distances"),
    "wide": Tag(
        "", "aten._to_copy", "forward", "norm.py:2 in forward", ("norm.py:2 in forward", "a.py:1")
    ),
    "cast": Tag("", "aten._to_copy", "forward", "net.py:2 in forward", ("functional.py:9 in f",)),
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
    nothing = SimpleNamespace(leaks=SimpleNamespace(found=()), fragmentation=None)
    own = SimpleNamespace(meta=SimpleNamespace(notes={"marks": "Optimizer.step#"}), trace=None)
    for rule in RULES[1 : RULES.index(leaking)]:
        assert rule(SimpleNamespace(blocks=blocks, explanation=nothing, profile=own)) is None


def test_tensors_that_are_repeated():
    assert repeated_tensors(facts(("repeated", 80, 0, 2), ("other", 20, 1, 2))).bytes == 80


@pytest.mark.parametrize("late", [0, 3])
def test_a_tensor_that_grows_by_concatenation(late):
    rows, names = [], 0
    for step in range(6):
        rows.append(("joined", 10 * (step + 1), names, names + 5 + late))
        rows += [("layer 1", 1, names + one, names + one + 1) for one in range(1, 4)]
        names += 4
    end = len(rows)
    hint = grown_by_cat(facts(*((name, size, at, min(to, end)) for name, size, at, to in rows)))
    assert (hint is None) == (late > 0)  # what lives on may still be needed
    if hint is not None:
        assert hint.bytes == 110 - 61  # the last form, and a block of the pass


def passes(count, first=()):
    """Rows of so many forward and backward passes, after others."""
    rows = list(first)
    for _ in range(count):
        at = len(rows)
        rows += [("layer 1", 8, at, at + 2), ("backward", 8, at + 1, at + 2)]
    return rows


def model(name, end=NEVER):
    """Rows of eight weights, of different sizes."""
    return [(name, 40 + at, end) for at in range(8)]


def placed(*rows):
    return [(name, size, at, end) for at, (name, size, end) in enumerate(rows)]


@pytest.mark.parametrize("sizes", [0, 1])
def test_clones_of_weights(sizes):
    clones = [("clone", size + sizes, end) for _, size, end in model("clone")]
    hint = cloned_weights(facts(*passes(3, placed(*model("weight"), *clones))))
    assert (hint is None) == bool(sizes)  # clones of something else
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


def test_equal_layers_of_which_half_are_frozen_are_no_second_model():
    layers = [(name, 40 + at % 4, end) for at, (name, _, end) in enumerate(model("weight") * 2)]
    assert model_without_gradients(facts(*passes(3, placed(*layers)))) is None


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


def optimizer_steps(freed):
    """Facts on four steps, with gradients that each step frees, or none."""
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
    assert zeroed_gradients(unknown) is None  # they may be accumulated


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
        assert growing_graphs(found) is None  # which is said already


@pytest.mark.parametrize("views", [True, False])
def test_gradients_next_to_their_buckets(views):
    rows = [("bucket", 80, 0, NEVER)]
    for _ in range(3):
        at = len(rows)
        rows.append(("layer 1", 8, at, at + 2))
        ends = [at + 2 + one if views else at + 10 for one in range(8)]
        rows += [("backward", 10, at + 1 + one, end) for one, end in enumerate(ends)]
        rows.append(("other", 1, at + 9, at + 10))
    hint = gradient_buckets(facts(*rows))
    assert (hint is None) == views
    if hint is not None:
        assert hint.bytes == 161 - 100  # two gradients live at the same time


def test_gradients_that_accumulate_are_no_second_copy():
    rows = [("bucket", 80, 0, NEVER)]
    for _ in range(3):
        at = len(rows)
        rows.append(("layer 1", 8, at, at + 2))
        rows += [("backward", 10, at + 1 + one, at + 20) for one in range(8)]
        rows.append(("other", 1, at + 9, at + 10))
    end = len(rows)
    found = facts(*((name, size, at, min(to, end)) for name, size, at, to in rows))
    assert gradient_buckets(found) is None


@pytest.mark.parametrize("unit", [8, 2])
def test_layers_that_are_gathered_at_once(unit):
    rows = []
    for _ in range(0, 8, unit):
        at = len(rows)
        rows += [("gathered", 50, at + one, at + unit + 1) for one in range(unit)]
        rows.append(("layer 1", 8, at + unit, at + unit + 1))
    hint = one_unit(facts(*rows))
    assert (hint is None) == (unit == 2)
    if hint is not None:
        assert hint.bytes == 8 * (50 - 50 // 4)  # two of eight at once


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
    rows += [(name, 10, 6, 8), ("backward", 8, 7, 9), ("backward", 8, 8, 9)]  # and one back
    hint = wide_copies(facts(*rows))
    assert (hint is None) == (name == "cast")  # autocast makes those
    if hint is not None:
        assert hint.bytes == 60  # the sources stay, which are half as large


@pytest.mark.parametrize(
    ("limit", "rounding", "named"),
    [
        ("-1", "[1:0,2:1]", ""),
        (str(8 << 20), "[1:0,2:0]", "max_split_size_mb"),
        ("-1", "[1:0,2:16]", "roundup_power2_divisions"),
        (str(8 << 20), "[1:0,2:16]", "max_split_size_mb and roundup_power2_divisions"),
    ],
)
def test_a_setting_that_costs_memory(limit, rounding, named):
    size = 32 << 20
    rows = [(Event.ALLOC, size), (Event.FREE_REQUESTED, size), (Event.FREE_COMPLETED, size)]
    trace = Trace.from_columns(
        kind=[Event.SEGMENT_ALLOC, *(kind for kind, _ in rows)] * 2,
        address=[1 << 30] * 4 + [2 << 30] * 4,
        size=[size] * 8,
        settings={"max_split_size": limit, "roundup_power2_divisions": rounding},
    )
    profile = SimpleNamespace(trace=trace)
    explanation = SimpleNamespace(fragmentation=SimpleNamespace(peak_reserved=2 * size))
    hint = allocator_settings(
        SimpleNamespace(
            blocks=AllBlocks.of(profile),
            profile=profile,
            explanation=explanation,
            is_expandable=False,
        )
    )
    assert (hint is None) == (not named)
    if hint is not None:
        assert hint.bytes == size
        assert hint.peak == 2 * size
        assert f" with {named} in " in hint.text
