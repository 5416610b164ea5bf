"""Training loops whose memory is measured on the stub CUDA runtime, one network a file.

    workload = create("gpt", Shape(batch=8, recompute=True))
    workload.step(length=512)

Nothing here looks at a value, since on the stub there are none: labels are zeros, and no loss is
read. Only the standard library is needed until `create`, which imports torch.
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
NAMES = tuple(CLASSES)

T = TypeVar("T")


@dataclass(frozen=True)
class Shape:
    """How large a network is trained, and how.

    Args:
        batch: samples per iteration.
        recompute: whether blocks recompute their activations in the backward pass.
        small: a few thin layers instead of the real network, for tests.
        reduced: all layers, but thin ones, for a CPU.
        dropout: share of values that dropout sets to zero, where a network has any.
        train: whether it is trained; else it infers.
    """

    batch: int
    recompute: bool = False
    small: bool = False
    reduced: bool = False
    dropout: float = 0.1
    train: bool = True

    def choose(self, real: T, reduced: T, small: T) -> T:
        """What belongs to this size of a network."""
        return small if self.small else reduced if self.reduced else real


@dataclass(frozen=True)
class Lengths:
    """The sequence lengths of a network's runs, in tokens."""

    fixed: int
    shortest: int
    longest: int
    buckets: tuple[int, ...]

    def draw(self, kind: str, iterations: int, seed: int = 0) -> list[int]:
        """One length per iteration.

        Args:
            kind: `fixed`; `bucket`, one of a few; `any`; `grow`, from the shortest to the longest.
                Of the second and third, the longest comes in the middle.
            iterations: how many.
            seed: of the order.
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
"""Networks without an entry have no length: images are always of the same size."""


def create(name: str, shape: Shape) -> "Training":
    """Builds the network and its optimizer on the current CUDA device, of the stub runtime."""
    import torch

    # It has cuBLAS, but no cuDNN.
    torch.backends.cudnn.enabled = False
    torch.backends.cuda.enable_cudnn_sdp(False)
    module = importlib.import_module(f"workloads.{name}")
    made: Training = getattr(module, CLASSES[name])(shape)
    return made
