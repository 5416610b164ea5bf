"""Training steps of convolutional networks as graphs, without a framework and without weights.

    net = Steps(batch=96)
    x = net.given(3, 224, 224)
    x = net.relu(net.batch_norm(net.conv(x, 64, 7, stride=2, padding=3)))
    graph = net.finish(net.classify(x, 1000))

Values are float32. Each operation of the backward pass reads what real ones read: a convolution
its input (and the weight, which is given), a batch norm its input and statistics, a rectifier its
output, a max pool its input and indices, an addition or a concatenation nothing. Gradients that
meet are added into a new value. With `rectifiers_keep="input"` a rectifier's reads its input: then
that is kept, and beside it what a convolution after it needs. Costs are those of Kusumoto et al.
2019, section 5.1: 10 for a convolution, 1 for anything else.
"""

from dataclasses import dataclass
from typing import Literal

from pgmo.recompute.planners.graph import Graph, Operation, Value

_FLOAT = 4


@dataclass(frozen=True)
class Image:
    """A value with its shape: (batch, channels, height, width)."""

    value: int
    channels: int
    height: int
    width: int


@dataclass(frozen=True)
class _Done:
    """What the backward pass has to know of a forward operation."""

    name: str
    inputs: tuple[Image, ...]
    output: Image
    saved: tuple[int, ...]
    weights: int  # bytes
    cost: float
    passes: bool  # the gradient of the output is that of each input


class Steps:
    """Writes the forward pass operation by operation; `finish` adds the backward pass."""

    def __init__(self, batch: int, rectifiers_keep: Literal["input", "output"] = "output") -> None:
        self.batch, self._keeps_inputs = batch, rectifiers_keep == "input"
        self.parameter_bytes = 0
        self._operations: list[Operation] = []
        self._values: list[Value] = []
        self._done: list[_Done] = []

    def given(self, channels: int, height: int, width: int) -> Image:
        """The images of a batch."""
        return self._image(channels, height, width, -1)

    def conv(
        self, x: Image, channels: int, kernel: int, *, stride: int = 1, padding: int = 0,
        dilation: int = 1
    ) -> Image:  # fmt: skip
        """A convolution with bias."""
        reach = dilation * (kernel - 1) + 1
        height = (x.height + 2 * padding - reach) // stride + 1
        width = (x.width + 2 * padding - reach) // stride + 1
        weights = _FLOAT * channels * (x.channels * kernel * kernel + 1)
        return self._run("conv", (x,), (channels, height, width), saved=(x,), weights=weights)

    def up_conv(self, x: Image, channels: int) -> Image:
        """A transposed convolution, 2 x 2 with stride 2."""
        weights = _FLOAT * channels * (x.channels * 4 + 1)
        shape = (channels, 2 * x.height, 2 * x.width)
        return self._run("up_conv", (x,), shape, saved=(x,), weights=weights)

    def batch_norm(self, x: Image) -> Image:
        """With its statistics as a small second result."""
        small = _FLOAT * 2 * x.channels
        return self._run(
            "batch_norm", (x,), _shape(x), saved=(x,), weights=small, second=small, pinned=True
        )

    def relu(self, x: Image) -> Image:
        if self._keeps_inputs:
            return self._run("relu", (x,), _shape(x), saved=(x,))
        return self._run("relu", (x,), _shape(x), keeps_output=True)

    def max_pool(self, x: Image, kernel: int, stride: int, padding: int = 0) -> Image:
        """With indices of eight bytes; rounds up, as the frameworks of the time did."""
        shape = (x.channels, *(_pooled(n, kernel, stride, padding) for n in (x.height, x.width)))
        indices = 8 * self.batch * shape[0] * shape[1] * shape[2]
        return self._run("max_pool", (x,), shape, saved=(x,), second=indices)

    def average(self, x: Image, height: int = 1, width: int = 1) -> Image:
        """To a given size."""
        return self._run("average_pool", (x,), (x.channels, height, width))

    def resize(self, x: Image, height: int, width: int) -> Image:
        """By bilinear interpolation."""
        return self._run("resize", (x,), (x.channels, height, width))

    def dropout(self, x: Image) -> Image:
        """Random, and so never run again; with a mask of one byte an element."""
        mask = self._bytes(*_shape(x)) // _FLOAT
        return self._run("dropout", (x,), _shape(x), second=mask, random=True)

    def add(self, x: Image, y: Image) -> Image:
        return self._run("add", (x, y), _shape(x), passes=True)

    def concat(self, *parts: Image) -> Image:
        """Along the channels; larger images are cropped to the first."""
        first = parts[0]
        channels = sum(part.channels for part in parts)
        return self._run("concat", parts, (channels, first.height, first.width))

    def linear(self, x: Image, channels: int) -> Image:
        """On everything that an image has."""
        weights = _FLOAT * channels * (x.channels * x.height * x.width + 1)
        return self._run("linear", (x,), (channels, 1, 1), saved=(x,), weights=weights)

    def loss(self, x: Image) -> Image:
        """Softmax and cross entropy, which keeps the probabilities."""
        return self._run("softmax_loss", (x,), (1, 1, 1), second=self._bytes(*_shape(x)))

    def finish(self, loss: Image) -> Graph:
        """The graph of the step: the backward pass from the loss to the gradients of weights."""
        forward = len(self._operations)
        last = self._values[loss.value]
        self._values[loss.value] = Value(last.size, last.producer, result=True)
        gradients = {loss.value: self._value(last.size, -1)}
        for done in reversed(self._done):
            gradient = gradients.pop(done.output.value, None)
            if gradient is None:
                continue
            inputs = [one for one in done.inputs if self._values[one.value].producer != -1]
            if done.passes:
                for one in inputs:
                    self._receive(gradients, one, gradient)
                continue
            index = len(self._operations)
            into = [self._value(self._bytes(*_shape(one)), index) for one in inputs]
            writes = list(into)
            if done.weights:
                writes.append(self._value(done.weights, index, result=True))
            reads = tuple(sorted({*done.saved, gradient}))
            self._operations.append(
                Operation(f"{done.name}_backward", reads, tuple(writes), 2 * done.cost)
            )
            for one, mine in zip(inputs, into, strict=True):
                self._receive(gradients, one, mine)
        return Graph(tuple(self._operations), tuple(self._values), forward)

    def _receive(self, gradients: dict[int, int], image: Image, gradient: int) -> None:
        before = gradients.get(image.value)
        if before is not None:
            index = len(self._operations)
            total = self._value(self._values[before].size, index)
            reads = tuple(sorted({before, gradient}))
            self._operations.append(Operation("accumulate", reads, (total,), 1.0))
            gradient = total
        gradients[image.value] = gradient

    def _run(
        self,
        name: str,
        inputs: tuple[Image, ...],
        shape: tuple[int, ...],
        *,
        saved: tuple[Image, ...] = (),
        weights: int = 0,
        second: int = 0,
        pinned: bool = False,
        keeps_output: bool = False,
        random: bool = False,
        passes: bool = False,
    ) -> Image:
        index = len(self._operations)
        output = self._image(shape[0], shape[1], shape[2], index)
        writes = [output.value]
        kept = [one.value for one in saved]
        if second:
            writes.append(self._value(second, index, pinned=pinned))
            kept.append(writes[-1])
        if keeps_output:
            kept.append(output.value)
        cost = 10.0 if "conv" in name else 1.0
        self._operations.append(
            Operation(
                name,
                tuple(sorted({one.value for one in inputs})),
                tuple(writes),
                cost,
                pinned=random,
            )
        )
        self._done.append(_Done(name, inputs, output, tuple(kept), weights, cost, passes))
        self.parameter_bytes += weights
        return output

    def _bytes(self, channels: int, height: int, width: int) -> int:
        return _FLOAT * self.batch * channels * height * width

    def _image(self, channels: int, height: int, width: int, producer: int) -> Image:
        value = self._value(self._bytes(channels, height, width), producer)
        return Image(value, channels, height, width)

    def _value(
        self, size: int, producer: int, *, result: bool = False, pinned: bool = False
    ) -> int:
        self._values.append(Value(size, producer, result, pinned))
        return len(self._values) - 1


def _shape(x: Image) -> tuple[int, int, int]:
    return (x.channels, x.height, x.width)


def _pooled(length: int, kernel: int, stride: int, padding: int) -> int:
    return -(-(length + 2 * padding - kernel) // stride) + 1
