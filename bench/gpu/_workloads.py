"""Workloads by name; equal seeds give equal bits.

    program = WORKLOADS["resnet50"].create()
    loss = program.step(0)

Weights and batches are made on the device, so an iteration copies nothing from the host.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from _language import Experts, Seq2Seq
from torch import Tensor, nn
from torch.nn import functional
from workloads import LENGTHS, Shape, gpt, resnet, unet
from workloads.gpt import SMALL_VOCABULARY, VOCABULARY
from workloads.sekiyama import alexnet, googlenet, inception_resnet

IMAGE, CLASSES = 224, 1000
SEED = 0


class Program:
    """Model, optimizer and batches.

    Args:
        model: a model on the device.
        batch: makes inputs and targets of a step from its number.
        dtype: type of the forward pass under autocast. With float16, the loss is scaled.
        samples: samples of a batch.
    """

    def __init__(
        self,
        model: nn.Module,
        batch: Callable[[int], tuple[Tensor, Tensor]],
        *,
        dtype: torch.dtype,
        samples: int,
    ) -> None:
        self.model = model.train()
        self.batch = batch
        self.dtype = dtype
        self.samples = samples
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        self.scaler = torch.amp.GradScaler("cuda", enabled=dtype is torch.float16)

    def step(self, index: int) -> Tensor:
        torch.manual_seed(SEED * 1_000_003 + index)
        inputs, targets = self.batch(index)
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", self.dtype, enabled=self.dtype is not torch.float32):
            output = self.model(inputs)
            if output.dim() == 3:  # classes are the last dimension, otherwise the second
                output, targets = output.flatten(0, 1), targets.flatten()
            loss = functional.cross_entropy(output, targets)
        del output
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.detach()


@dataclass(frozen=True)
class Workload:
    """Description from which a program is made.

    Args:
        model: makes the network of a shape.
        kind: kind of the batches: "image", "mask" or "tokens".
        samples: default number of samples of a batch.
        dtype: type of autocast.
        length: length of the sequences in tokens; the longest, if lengths vary.
        varying: whether each iteration has a length of its own.
        vocabulary: number of tokens.
        repeats: whether all kernels can be deterministic, so that each run has the same bits.
        dense: whether sizes depend only on lengths; False with experts.
        side: side of images in pixels.
        recompute: whether blocks recompute their activations in the backward pass.
        small: whether to build a tiny network.
    """

    model: Callable[[Shape], nn.Module]
    kind: str
    samples: int
    dtype: torch.dtype = torch.bfloat16
    length: int = LENGTHS["gpt"].longest
    varying: bool = False
    vocabulary: int = VOCABULARY
    dense: bool = True
    repeats: bool = True
    side: int = IMAGE
    recompute: bool = False
    small: bool = False

    def create(self, samples: int = 0, *, recompute: bool = False) -> Program:
        samples = samples or self.samples
        torch.manual_seed(SEED)
        with torch.device("cuda"):
            model = self.model(Shape(samples, recompute or self.recompute, self.small))
        return Program(
            model,
            lambda index: self._batch(index, samples),
            dtype=self.dtype,
            samples=samples,
        )

    def lengths(self, count: int) -> Sequence[int]:
        """Return the tokens of each iteration; varying lengths are multiples of 8 from 64 on."""
        if not self.varying:
            return [self.length] * count
        generator = torch.Generator().manual_seed(SEED)
        steps = torch.randint(64 // 8, self.length // 8 + 1, (max(count, 64),), generator=generator)
        lengths = [8 * int(step) for step in steps]
        lengths[LONGEST_AT] = self.length
        return lengths[:count]

    def _batch(self, index: int, samples: int) -> tuple[Tensor, Tensor]:
        if self.kind == "tokens":
            length = self.lengths(index + 1)[index]
            tokens = torch.randint(self.vocabulary, (samples, length + 1), device="cuda")
            return tokens[:, :-1], tokens[:, 1:]
        images = torch.randn(samples, 3, self.side, self.side, device="cuda")
        if self.kind == "mask":
            return images, torch.randint(2, (samples, self.side, self.side), device="cuda")
        return images, torch.randint(CLASSES, (samples,), device="cuda")


LONGEST_AT = 9
"""Iteration with the longest sequence. The session has planned by then, and plans again."""


def _experts(shape: Shape) -> nn.Module:
    model = gpt.Model(shape, (768, 4, 12, VOCABULARY))
    for layer in model.layers:
        layer.feed = Experts(768)
    return model


def _googlenet(shape: Shape) -> nn.Module:
    return googlenet.Network(auxiliary=False)


def _seq2seq(**options: Any) -> Workload:
    return Workload(Seq2Seq, "tokens", 32, length=128, vocabulary=16384, **options)


HALF = torch.float16

WORKLOADS: dict[str, Workload] = {
    "gpt2_medium": Workload(gpt.Model, "tokens", 4),
    "gpt2_medium_checkpoint": Workload(gpt.Model, "tokens", 8, recompute=True),
    "gpt2_medium_varying": Workload(gpt.Model, "tokens", 4, varying=True),
    "gpt2_medium_varying_checkpoint": Workload(
        gpt.Model, "tokens", 8, varying=True, recompute=True
    ),
    "resnet50": Workload(resnet.network, "image", 64, dtype=HALF),
    "unet": Workload(unet.Model, "mask", 16, dtype=HALF, repeats=False),
    "seq2seq": _seq2seq(),
    "experts": Workload(_experts, "tokens", 8, dense=False),
    "alexnet": Workload(alexnet.network, "image", 256, dtype=HALF),
    "googlenet": Workload(_googlenet, "image", 64, dtype=HALF, repeats=False),
}
"""Workloads in order of interest: if the time is over, the last ones are left out."""

BATCHES: dict[str, Workload] = {
    "gpt2_medium_512_checkpoint": Workload(gpt.Model, "tokens", 8, length=512, recompute=True),
    "gpt2_medium_512": Workload(gpt.Model, "tokens", 8, length=512),
    "gpt2_medium_varying_checkpoint": WORKLOADS["gpt2_medium_varying_checkpoint"],
    "resnet50": WORKLOADS["resnet50"],
}
"""Workloads for which the largest batch is searched for."""

FULL = torch.float32

SEKIYAMA: dict[str, Workload] = {
    "resnet50_float32": Workload(resnet.network, "image", 64, dtype=FULL),
    "inception_resnet_float32": Workload(
        inception_resnet.network, "image", 16, dtype=FULL, side=299
    ),
    "alexnet_float32": Workload(alexnet.network, "image", 512, dtype=FULL),
    "seq2seq_float32": _seq2seq(dtype=FULL),
    "googlenet_float32": Workload(_googlenet, "image", 64, dtype=FULL, repeats=False),
}
"""Networks of Sekiyama et al. 2018 in float32, whose speed at their largest batches is measured."""

QUICK: dict[str, Workload] = {
    "tiny": Workload(gpt.Model, "tokens", 2, length=64, vocabulary=SMALL_VOCABULARY, small=True)
}
"""Workload of quick runs."""

EVERY: dict[str, Workload] = WORKLOADS | BATCHES | SEKIYAMA | QUICK
