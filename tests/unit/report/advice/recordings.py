"""Recordings for tests of causes, as rows (name, bytes, start, end); `TAGS` has the names."""

from types import SimpleNamespace

from pgmo.profiler.profile import NEVER, Profile
from pgmo.profiler.tag import Tag
from pgmo.report.advice.all_blocks import AllBlocks

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
    "copy in step": Tag("", "aten._to_copy", "other", "", ("offload.py:9 in step",)),
    "state": Tag("", "aten.zeros_like", "optimizer"),
    "bucket": Tag("", "aten.empty", "forward", "", ("distributed.py:9 in _pre_forward",)),
    "gathered": Tag("", "", "forward", "", ("_fsdp_param.py:9 in alloc_all_gather_outputs",)),
    "buffer": Tag("", "", "forward", "", ("_fsdp_collectives.py:9 in foreach_all_gather",)),
    "buffer in backward": Tag(
        "", "", "backward", "", ("_fsdp_collectives.py:9 in foreach_all_gather",)
    ),
    "difference": Tag("", "aten.sub", "other", "pairs.py:1 in distances"),
    "square": Tag("", "aten.pow", "other", "pairs.py:1 in distances"),
    "sum": Tag("", "aten.sum", "other", "pairs.py:1 in distances"),
    "wide": Tag(
        "", "aten._to_copy", "forward", "norm.py:2 in forward", ("norm.py:2 in forward", "a.py:1")
    ),
    "cast to float8": Tag("", "aten._to_copy", "forward", "", ("float8_ops.py:9 in cast",)),
    "cast": Tag("", "aten._to_copy", "forward", "net.py:2 in forward", ("functional.py:9 in f",)),
}
NAMES = list(TAGS)


def facts(*rows):
    """Return facts on a recording of rows (name, bytes, start, end)."""
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


def passes(count, first=()):
    """Return the rows `first` and those of `count` forward and backward passes."""
    rows = list(first)
    for _ in range(count):
        at = len(rows)
        rows += [("layer 1", 8, at, at + 2), ("backward", 8, at + 1, at + 2)]
    return rows


def model(name, end=NEVER):
    """Return (name, bytes, end) of eight weights of different sizes."""
    return [(name, 40 + at, end) for at in range(8)]


def placed(*rows):
    return [(name, size, at, end) for at, (name, size, end) in enumerate(rows)]
