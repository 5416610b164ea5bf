"""Base class of the networks for images."""

import functools

import torch
from torch import Tensor, optim
from torch.nn import functional

from workloads.training import Training


class Classifier(Training):
    """Classifier of a thousand classes in float32, trained with momentum."""

    optimizer = functools.partial(optim.SGD, lr=0.01, momentum=0.9)
    precision = torch.float32
    side = 224
    auxiliary_weight = 0.3

    def batch(self, length: int) -> tuple[Tensor, ...]:
        """Return images, shape (batch, 3, side, side), and classes, shape (batch,)."""
        count = self.shape.batch
        images = torch.zeros(count, 3, self.side, self.side, device="cuda")
        return images, torch.zeros(count, dtype=torch.long, device="cuda")

    def loss(self, *batch: Tensor) -> Tensor:
        """Return the cross entropy of the classes, plus a share of the auxiliary classifiers'."""
        images, classes = batch
        scores = self.model(images)
        if isinstance(scores, Tensor):
            return functional.cross_entropy(scores, classes)
        total, *others = (functional.cross_entropy(one, classes) for one in scores)
        return total + self.auxiliary_weight * sum(others)
