"""Convolutions without cuDNN: PyTorch's own kernels unfold their input into columns.

    one sample (channels, height, width) -> columns (channels * kernel, height * width) -> product

Source of the order: what the stub recorded of aten/src/ATen/native/cuda/ConvolutionMM2d.cu,
NaiveConvolutionTranspose2d.cu, NaiveDilatedConvolution.cu and DepthwiseConv2d.cu of PyTorch 2.11.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from pgmo.fit.estimate.kernels.products import workspace
from pgmo.fit.estimate.kernels.rule import Kernel, Rule, size_of

_aten = torch.ops.aten


@dataclass(frozen=True)
class _Shape:
    """One convolution: bytes of its parts."""

    input: Any
    weight: Any
    stride: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]
    transposed: bool
    groups: int

    @property
    def dims(self) -> int:
        return int(self.input.dim()) - 2

    @property
    def depthwise(self) -> bool:
        channels = self.input.shape[1]
        return (
            not self.transposed
            and self.dims <= 2
            and self.groups == channels > 1
            and self.weight.shape[0] % channels == 0
        )

    @property
    def unfolds(self) -> bool:
        """Whether the input itself cannot serve as columns."""
        plain = all(size == 1 for size in self.weight.shape[2:]) and not any(self.padding)
        return not plain or any(step != 1 for step in self.stride)

    @property
    def general(self) -> bool:
        """Whether it is one of those with a kernel for every case: dilated, or of volumes."""
        return not self.transposed and (self.dims == 3 or any(one != 1 for one in self.dilation))

    def columns(self, result: Any) -> int:
        """Bytes of the columns of one sample, in one group."""
        channels = self.weight.shape[1]
        positions = self.input if self.transposed else result
        size = channels * prod(self.weight.shape[2:]) * prod(positions.shape[2:])
        return int(size * self.input.element_size())


def _forward(kernel: Kernel, args: Any, _kwargs: Any, out: Any) -> None:
    x, weight, bias, stride, padding, dilation, transposed, _, groups = args
    shape = _Shape(x, weight, stride, padding, dilation, transposed, groups)
    ledger = kernel.ledger
    copies = [] if x.is_contiguous() else [ledger.take(size_of(x))]
    if shape.depthwise:
        ledger.born([out])
        ledger.give(*copies)
        return
    kept = []
    for _ in range(groups if groups > 1 else 0):
        part = ledger.take(size_of(x) // groups)
        kept.append(ledger.take(size_of(out) // groups))
        _columns_forward(kernel, shape, out, bias)
        ledger.give(part)
    ledger.born([out])
    if not kept:
        _columns_forward(kernel, shape, out, bias)
    ledger.give(*kept, *copies)


def _columns_forward(kernel: Kernel, shape: _Shape, out: Any, bias: Any) -> None:
    ledger = kernel.ledger
    taken = []
    if shape.unfolds or shape.transposed:
        taken.append(ledger.take(shape.columns(out)))
    kernel.once("cublas", workspace(kernel))
    if shape.transposed and bias is not None:
        taken.append(ledger.take(prod(out.shape[2:]) * out.element_size()))
    ledger.give(*reversed(taken))


def _backward(kernel: Kernel, args: Any, _kwargs: Any, out: Any) -> None:
    grad, x, weight, _, stride, padding, dilation, transposed, _, groups, _ = args
    shape = _Shape(x, weight, stride, padding, dilation, transposed, groups)
    ledger = kernel.ledger
    copy = {id(one): ledger.take(size_of(one)) for one in (x, grad) if not one.is_contiguous()}
    copies = [*reversed(copy.values())]
    grads = [one for one in out if one is not None]
    if shape.depthwise:
        ledger.born([] if out[1] is None else [out[1]])
        ledger.give(*[copy[id(x)]] if id(x) in copy else ())
        ledger.born([] if out[0] is None else [out[0]])
        ledger.give(*[copy[id(grad)]] if id(grad) in copy else ())
        ledger.born(grads)
        return
    if groups == 1:
        _columns_backward(
            kernel, shape, grad, out, lambda number: ledger.born(out[number : number + 1])
        )
        ledger.born(grads)
        ledger.give(*copies)
        return
    kept: dict[int, list[tuple[int, int]]] = {0: [], 1: [], 2: []}
    for _ in range(groups):
        parts = [ledger.take(size_of(grad) // groups), ledger.take(size_of(x) // groups)]
        _columns_backward(
            kernel,
            shape,
            grad,
            out,
            lambda number: kept[number].append(ledger.take(size_of(out[number]) // groups)),
        )
        ledger.give(*reversed(parts))
    ledger.born(grads)
    ledger.give(*kept[2], *kept[1], *kept[0], *copies)


def _columns_backward(
    kernel: Kernel, shape: _Shape, grad: Any, out: Any, note: Callable[[int], None]
) -> None:
    """One group; `note` is told which gradient is made: 0 of input, 1 of weight, 2 of bias."""
    ledger = kernel.ledger
    size = shape.columns(grad)

    def multiply() -> None:
        kernel.once("cublas", workspace(kernel))

    def make(*numbers: int) -> None:
        for number in numbers:
            if out[number] is not None:
                note(number)

    if shape.general:
        make(0, 1, 2)
        columns = ledger.take(size)
        multiply()
        if out[2] is not None:
            for _ in range(shape.input.shape[0]):
                kernel.passing(size_of(out[2]) // shape.groups)
        ledger.give(columns)
    elif shape.transposed:
        if out[0] is not None:
            make(0)
            columns = ledger.take(size)
            multiply()
            ledger.give(columns)
        make(1, 2)
        columns = ledger.take(size)
        multiply()
        ledger.give(columns)
    elif out[0] is not None:
        make(0)
        columns = ledger.take(size)
        multiply()
        make(2, 1)
        ledger.give(columns)
    else:
        make(2, 1)
        kernel.passing(size if shape.unfolds else 0)
        multiply()


RULES: dict[Any, Rule] = {
    _aten.convolution.default: _forward,
    _aten.convolution_backward.default: _backward,
}
