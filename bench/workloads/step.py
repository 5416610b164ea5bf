"""A network with its loss inside: one training step is a call and `backward`."""

from torch import Tensor, nn
from torch.nn import functional


class WithLoss(nn.Module):
    """A network and the cross entropy of what it gives."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """The scalar loss; classes are the second dimension of the scores, or the last of three."""
        scores = self.network(inputs)
        if scores.dim() == 3:
            scores, targets = scores.flatten(0, 1), targets.flatten()
        return functional.cross_entropy(scores, targets)
