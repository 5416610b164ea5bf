"""Generated profiles of loops, whose time is a circle."""

import random
from collections.abc import Callable

import numpy as np

from pgmo.profiler.profile import Profile


def training(blocks: int, seed: int = 0) -> Profile:
    """Return an iteration of training with Adam: forward pass, backward pass, optimizer.

    The profile is the second of three iterations, with the frees of the third. Gradients wrap if
    they are freed after the next forward pass. The next batch is requested before the last one is
    freed, so two batches are live at once.
    """
    draw = random.Random(seed)
    layers = [
        [draw.choice((1, 2, 4, 9)) << draw.randrange(6, 20) for _ in range(4)]
        for _ in range(max(1, blocks // 11))
    ]
    skips = [draw.random() < 0.2 for _ in layers]
    sizes: list[int] = []
    ends: list[int] = []

    def new(size: int) -> int:
        sizes.append(size)
        ends.append(-1)
        return len(sizes) - 1

    def free(*freed: int) -> None:
        for block in freed:
            ends[block] = len(sizes)

    batch, gradients, begins = [], [], []
    for _ in range(3):
        begins.append(len(sizes))
        following = [new(1 << 20), new(1 << 8)]
        free(*batch)
        batch = following
        if seed % 2:  # `zero_grad` at the beginning of an iteration
            free(*gradients)
        kept = []
        for output, saved, scratch, _ in layers:
            temporary = new(scratch)
            kept.append([new(saved), new(output)])
            free(temporary)
        if not seed % 2:
            free(*gradients)
        upstream, joined, gradients = new(layers[-1][0]), [], []
        for (output, _, scratch, weight), held, skip in zip(
            reversed(layers), reversed(kept), reversed(skips), strict=True
        ):
            temporary, below = new(scratch), new(output)
            if skip:
                joined.append(new(output))
            gradients.append(new(weight))
            free(temporary, upstream, *held)
            upstream = below
        free(upstream, *joined)
        for _ in range(2):
            free(*[new(weight) for *_, weight in layers])
    first, last = begins[1:]
    own = slice(first, last)
    end = np.array(ends[own]) - first
    return Profile.from_columns(
        size=sizes[own], start=np.arange(last - first), end=end, ticks=last - first
    )


def scattered(blocks: int, seed: int = 0) -> Profile:
    """Return a hard profile: random sizes and lifetimes over several orders of magnitude."""
    rng = np.random.default_rng(seed)
    size = np.exp(rng.uniform(0, 16, blocks)).astype(np.int64) + 1
    start = np.arange(blocks, dtype=np.int64)
    length = np.exp(rng.uniform(0, np.log(max(2, blocks / 4)), blocks)).astype(np.int64) + 1
    return Profile.from_columns(size=size, start=start, end=start + length, ticks=blocks)


FAMILIES: dict[str, Callable[[int, int], Profile]] = {"training": training, "scattered": scattered}
