"""Training loops whose memory is measured on the stub CUDA runtime, one network per file.

    workload = create("gpt", Shape(batch=8, recompute=True))
    workload.step(length=512)

The stub computes no values, so labels are zeros and no loss is read. This module needs only the
standard library; `create` imports torch.
"""

import importlib
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from workloads.training import Training

CLASSES = {
    "gpt": "GPT",
    "resnet": "ResNet",
    "unet": "UNet",
    "seq2seq": "Seq2Seq",
    "sekiyama.alexnet": "AlexNet",
    "sekiyama.googlenet": "GoogLeNet",
    "sekiyama.resnet": "ResNet",
    "sekiyama.inception_resnet": "InceptionResNet",
    "sekiyama.seq2seq": "Seq2Seq",
}

T = TypeVar("T")


@dataclass(frozen=True)
class Shape:
    """Size of a network, and options of its training.

    Args:
        batch: samples per iteration.
        recompute: whether blocks recompute their activations in the backward pass.
        small: whether to build a few thin layers instead of the real network, for tests.
        reduced: whether to build all layers with reduced width, for a CPU.
        dropout: rate of dropout, in networks that have dropout.
        train: whether the network trains; otherwise it infers.
    """

    batch: int
    recompute: bool = False
    small: bool = False
    reduced: bool = False
    dropout: float = 0.1
    train: bool = True

    def choose(self, real: T, reduced: T, small: T) -> T:
        return small if self.small else reduced if self.reduced else real


@dataclass(frozen=True)
class Lengths:
    """Sequence lengths of a network, in tokens."""

    fixed: int
    shortest: int
    longest: int
    buckets: tuple[int, ...]

    def draw(self, kind: str, iterations: int, seed: int = 0) -> list[int]:
        """Draw a length for each iteration.

        Args:
            kind: `fixed`; `bucket`, one of a few lengths; `any`; `grow`, from the shortest to the
                longest. With `bucket` and `any`, the longest length is in the middle.
            iterations: number of iterations.
            seed: seed of the lengths.
        """
        if kind == "fixed":
            return [self.fixed] * iterations
        every = range(self.shortest, self.longest + 1)
        if kind == "grow":
            last = max(iterations - 1, 1)
            return [every[(len(every) - 1) * k // last] for k in range(iterations)]
        chance = random.Random(seed)
        drawn = [
            chance.choice(self.buckets if kind == "bucket" else every) for _ in range(iterations)
        ]
        drawn[iterations // 2] = self.longest
        return drawn


LENGTHS = {
    "gpt": Lengths(512, 64, 1024, (128, 256, 384, 512, 768, 1024)),
    "seq2seq": Lengths(50, 8, 64, (16, 24, 32, 40, 48, 64)),
    "sekiyama.seq2seq": Lengths(50, 8, 64, (16, 24, 32, 40, 48, 64)),
}
"""Lengths of networks. Networks for images have no entry: their inputs have one size."""


def create(name: str, shape: Shape) -> "Training":
    """Build the network and its optimizer on the current CUDA device."""
    import torch

    torch.backends.cudnn.enabled = False
    torch.backends.cuda.enable_cudnn_sdp(False)
    module = importlib.import_module(f"workloads.{name}")
    made: Training = getattr(module, CLASSES[name])(shape)
    return made
