"""Four micro-batches a step, with activations in bfloat16."""

import torch
from network import Network, parser, train
from torch import Tensor

given = parser.parse_args()
model = Network(small=given.small).cuda()


def loss_of() -> Tensor:
    """Run three micro-batches, and the forward pass of the fourth; return its loss."""
    with torch.autocast("cuda", torch.bfloat16):
        for _ in range(3):
            model.loss(given.batch_size).backward()
        return model.loss(given.batch_size)


train(given, model, loss_of=loss_of)
