"""What tests compare of a step, bit by bit."""

import random

import torch


def step(model, *inputs, seed=0):
    """Everything that a step computes: the loss, gradients, buffers, and random numbers to come."""
    model.zero_grad(set_to_none=True)
    torch.manual_seed(seed)
    random.seed(seed)
    result = model(*inputs)
    result = result["loss"] if isinstance(result, dict) else result
    loss = (result[0] if isinstance(result, tuple) else result).sum()
    loss.backward()
    return [
        *(loss.detach(), *(one.grad for one in model.parameters())),
        *(one.clone() for one in model.buffers()),
        *(torch.rand(2), torch.tensor(random.random())),
    ]


def same(ours, theirs):
    """Whether all bits are, and what is None is None in both."""
    return all(
        one is other if one is None or other is None else torch.equal(one, other)
        for one, other in zip(ours, theirs, strict=True)
    )
