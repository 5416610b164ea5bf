"""Generated traces of training loops, whose time is a circle.

A simple allocator runs the requests and frees of three iterations of a loop. The trace is the
middle iteration, with the frees of the next one. So it has wrapping blocks (gradients that
`zero_grad` frees in the next iteration), doubly live blocks (the batch and the loss, requested
before the previous ones are freed) and no persistent blocks, as in a plan of a real loop.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Trace:
    """Blocks of one iteration; a block with `end > ticks` wraps."""

    size: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    ticks: int


class Tape:
    """Requests and frees of blocks; time is the number of requests so far."""

    def __init__(self) -> None:
        self.size: list[int] = []
        self.end: list[int] = []

    def new(self, size: int) -> int:
        """Request a block and return its number."""
        self.size.append(max(1, int(size)))
        self.end.append(-1)
        return len(self.size) - 1

    def free(self, *blocks: int) -> None:
        """Free blocks by their numbers."""
        for block in blocks:
            self.end[block] = len(self.size)

    def scratch(self, *sizes: int) -> None:
        """Request temporaries in order, and free them all."""
        self.free(*[self.new(size) for size in sizes])


@dataclass(frozen=True)
class Layer:
    """Sizes of a layer's blocks in bytes: output, saved for backward, temporary, parameters."""

    output: int
    saved: tuple[int, ...]
    scratch: tuple[int, ...]
    parameters: tuple[int, ...]
    skip_from: int = -1  # index of an earlier layer whose output this layer reads


def run_training(
    layers: list[Layer],
    batch: tuple[int, ...],
    *,
    adam: bool,
    zero_grad_first: bool,
    iterations: int = 3,
) -> Trace:
    """Record `iterations` of forward, backward and optimizer over the layers."""
    tape = Tape()
    inputs: list[int] = []
    loss: list[int] = []
    gradients: dict[tuple[int, int], int] = {}
    marks = []
    last_reader = {layer.skip_from: i for i, layer in enumerate(layers) if layer.skip_from >= 0}
    for _ in range(iterations):
        marks.append(len(tape.size))
        fresh = [tape.new(size) for size in batch]
        tape.free(*inputs)  # the new batch is allocated before the old one is freed
        inputs = fresh
        if zero_grad_first:
            tape.free(*gradients.values())
            gradients = {}
        kept: list[list[int]] = []
        for layer in layers:  # forward
            temporaries = [tape.new(size) for size in layer.scratch]
            kept.append([tape.new(size) for size in (*layer.saved, layer.output)])
            tape.free(*temporaries)
        fresh = [tape.new(4)]
        tape.free(*loss)
        loss = fresh
        if not zero_grad_first:
            tape.free(*gradients.values())
            gradients = {}
        upstream = tape.new(layers[-1].output)
        skips: dict[int, int] = {}
        for i in reversed(range(len(layers))):  # backward
            layer = layers[i]
            if i in skips:
                total = tape.new(layer.output)
                tape.free(upstream, skips.pop(i))
                upstream = total
            temporaries = [tape.new(size) for size in layer.scratch]
            below = tape.new(layers[i - 1].output if i else batch[0])
            if layer.skip_from >= 0 and last_reader[layer.skip_from] == i:
                skips[layer.skip_from] = tape.new(layers[layer.skip_from].output)
            tape.free(*temporaries)
            for p, size in enumerate(layer.parameters):
                gradients[i, p] = tape.new(size)
            tape.free(upstream, *kept[i])
            upstream = below
        tape.free(upstream)
        parameters = [size for layer in layers for size in layer.parameters]
        if adam:  # the foreach implementation has temporaries as large as all parameters
            for _ in range(2):
                tape.scratch(*parameters)
            denominators = [tape.new(size) for size in parameters]
            tape.scratch(*[4] * len(parameters))
            tape.free(*denominators)
    return trace_of(tape, marks)


def trace_of(tape: Tape, marks: list[int]) -> Trace:
    """Return the last but one iteration of the tape, without blocks that are not freed."""
    first, last = marks[-2], marks[-1]
    size = np.asarray(tape.size[first:last], np.int64)
    end = np.asarray(tape.end[first:last], np.int64)
    start = np.arange(last - first, dtype=np.int64)
    freed = end >= 0
    return Trace(size[freed], start[freed], end[freed] - first, last - first)


def convolutional(blocks: int, seed: int = 0) -> Trace:
    """Return the trace of a residual network, with batch norms and workspaces of convolutions."""
    rng = random.Random(seed)
    layers: list[Layer] = []
    depth = max(1, blocks // 13)
    image, channels, batch = 56, 64, rng.choice((16, 32, 48))
    for i in range(depth):
        if i and i % max(1, depth // 4) == 0 and image > 7:
            image, channels = image // 2, channels * 2
        activation = 4 * batch * channels * image * image
        columns = rng.choice((0, activation // 2, activation * 2, 9 * channels * image * image * 4))
        layers.append(
            Layer(
                activation,
                (activation, 4 * channels, 4 * channels),
                (columns + 512, rng.randrange(1, 1 << 20)),
                (36 * channels * channels, 4 * channels, 4 * channels),
                skip_from=i - 3 if i >= 3 and i % 3 == 0 else -1,
            )
        )
    layers.append(Layer(4 * batch * 1000, (4 * batch * 1000,), (512,), (4 * channels * 1000,)))
    pixels = 4 * batch * 3 * 224 * 224
    return run_training(layers, (pixels, 8 * batch), adam=False, zero_grad_first=seed % 2 == 0)


def u_net(blocks: int, seed: int = 0) -> Trace:
    """Return the trace of a U-Net, whose large skip connections have the longest lifetimes."""
    rng = random.Random(seed)
    levels = 4 + seed % 3
    each = max(1, blocks // 18 // (2 * levels))
    batch, channels, image = rng.choice((2, 4, 8)), 32, 256
    layers: list[Layer] = []
    ends: list[int] = []
    for level in range(2 * levels):
        down = level < levels
        depth = level if down else 2 * levels - 1 - level
        activation = 4 * batch * channels * 2**depth * (image >> depth) ** 2
        width = channels * 2**depth
        for i in range(each):
            joined = not down and i == 0
            layers.append(
                Layer(
                    activation,
                    (activation * (2 if joined else 1), 4 * width),
                    (activation * rng.choice((1, 2)), rng.randrange(1, 1 << 18)),
                    (36 * width * width, 4 * width),
                    skip_from=ends[depth] if joined else -1,
                )
            )
        if down:
            ends.append(len(layers) - 1)
    pixels = 4 * batch * 3 * image * image
    return run_training(layers, (pixels, pixels // 3), adam=True, zero_grad_first=seed % 2 == 0)


def transformer(blocks: int, seed: int = 0) -> Trace:
    """Return the trace of a GPT with dropout masks, a large vocabulary, and Adam."""
    rng = random.Random(seed)
    batch, width = rng.choice((4, 8, 12)), rng.choice((256, 384, 768))
    length = rng.choice((128, 200, 256, 512))
    tokens, heads = batch * length, width // 64
    hidden = 4 * tokens * width
    scores = 4 * batch * heads * length * length
    layers = [Layer(hidden, (hidden // 4,), (8 * tokens,), (4 * 50257 * width, 4 * 1024 * width))]
    for _ in range(max(1, blocks // 95)):
        layers += [
            Layer(hidden, (4 * tokens, 4 * tokens), (), (4 * width, 4 * width)),
            Layer(3 * hidden, (), (hidden,), (12 * width * width, 12 * width)),
            Layer(hidden, (scores, scores // 4, scores), (scores, hidden), ()),
            Layer(hidden, (hidden, hidden // 4), (hidden,), (4 * width * width, 4 * width)),
            Layer(hidden, (4 * tokens, 4 * tokens), (), (4 * width, 4 * width)),
            Layer(4 * hidden, (4 * hidden,), (), (16 * width * width, 16 * width)),
            Layer(hidden, (hidden // 4,), (hidden,), (16 * width * width, 4 * width)),
        ]
    logits = 4 * tokens * 50257
    layers.append(Layer(logits, (logits,), (4 * tokens,), ()))
    return run_training(layers, (8 * tokens, 8 * tokens), adam=True, zero_grad_first=seed % 2 == 0)


def recurrent(blocks: int, seed: int = 0) -> Trace:
    """Return the trace of an unrolled LSTM, with thousands of small saved tensors."""
    rng = random.Random(seed)
    batch, width = rng.choice((16, 32, 64)), rng.choice((128, 256, 512))
    state = 4 * batch * width
    weights = (16 * width * width, 16 * width * width, 16 * width)
    tape = Tape()
    steps = max(1, blocks // 19)
    inputs: list[int] = []
    loss: list[int] = []
    gradients: list[int] = []
    marks = []
    vocabulary = 4 * batch * 2000
    for _ in range(3):
        marks.append(len(tape.size))
        fresh = [tape.new(8 * batch * steps), tape.new(8 * batch * steps)]
        tape.free(*inputs)
        inputs = fresh
        if seed % 2 == 0:
            tape.free(*gradients)
            gradients = []
        embedded = tape.new(state * steps)
        kept = []
        for _ in range(steps):
            gates, sums = tape.new(4 * state), tape.new(4 * state)
            kept.append([tape.new(state) for _ in range(7)])
            tape.free(gates, sums)
            kept[-1].append(tape.new(vocabulary // 8))
        fresh = [tape.new(4)]
        tape.free(*loss)
        loss = fresh
        tape.free(*gradients)
        gradients = []
        hidden, cell = tape.new(state), tape.new(state)
        for step in reversed(range(steps)):
            gates = tape.new(4 * state)
            partial = [tape.new(size) for size in weights]
            if gradients:
                sums_of_weights = [tape.new(size) for size in weights]  # sums are out of place
                tape.free(*gradients, *partial)
                gradients = sums_of_weights
            else:
                gradients = partial
            below = tape.new(state), tape.new(state)
            tape.free(gates, hidden, cell, *kept[step])
            hidden, cell = below
        tape.free(hidden, cell)
        gradients.append(tape.new(state * steps))
        tape.free(embedded)
        for _ in range(2):
            tape.scratch(*weights)
    return trace_of(tape, marks)


def scattered(blocks: int, seed: int = 0) -> Trace:
    """Return a hard trace: random sizes and lifetimes over several orders of magnitude."""
    rng = np.random.default_rng(seed)
    size = np.exp(rng.uniform(0, 16, blocks)).astype(np.int64) + 1
    start = np.arange(blocks, dtype=np.int64)
    length = np.exp(rng.uniform(0, np.log(max(2, blocks / 4)), blocks)).astype(np.int64) + 1
    return Trace(size, start, start + length, blocks)


FAMILIES: dict[str, Callable[[int, int], Trace]] = {
    "convolutional": convolutional,
    "u_net": u_net,
    "transformer": transformer,
    "recurrent": recurrent,
    "scattered": scattered,
}
