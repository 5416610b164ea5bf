"""Healthy programs, for which the advice must name no cause."""

from contextlib import nullcontext
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.utils.checkpoint import checkpoint

from faulty import program
from faulty.models import (
    Model,
    batches,
    cross_entropy,
    mean_of_hidden,
    mean_of_logits,
    saved,
    step,
    train,
)
from faulty.several_ranks import begin, replicated


def _train(model: nn.Module, **options: Any) -> None:
    train(model, torch.optim.AdamW(model.parameters(), fused=True), **options)


@program("", "a plain training loop")
def plain_training(fixed: bool) -> None:
    """Train with fixed shapes."""
    _train(Model(layers=6).cuda(), count=12, batch=4)


@program("", "an evaluation under no_grad")
def with_evaluation(fixed: bool) -> None:
    """Evaluate under no_grad between epochs."""
    model = Model().cuda()
    for _ in range(2):
        _train(model, batch=4)
        with torch.no_grad():
            for ids in batches(3, batch=8):
                float(cross_entropy(model, ids))


@program("", "a cache that fills up")
def cache_that_fills(fixed: bool) -> None:
    """Keep the first four batches on the device."""
    model = Model().cuda()
    kept: list[torch.Tensor] = []
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for number, ids in enumerate(batches(16)):
        if number < 4:
            kept.append(ids)
        step(optimizer, mean_of_hidden(model, kept[number % 4]))


@program("", "accumulation of gradients")
def accumulation(fixed: bool) -> None:
    """Accumulate the gradients of four micro-batches."""
    model = Model().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for number, ids in enumerate(batches(24, batch=2)):
        mean_of_hidden(model, ids).backward()
        if number % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()


@program("", "mixed precision")
def autocast(fixed: bool) -> None:
    """Train float32 weights with operations in bfloat16."""

    def loss(model: Model, ids: Tensor) -> Tensor:
        with torch.autocast("cuda", torch.bfloat16):
            return mean_of_hidden(model, ids)

    _train(Model(layers=6).cuda(), count=12, loss=loss)


@program("", "AdamW whose state is in bfloat16, and most of the memory")
def state_in_bfloat16(fixed: bool) -> None:
    """Train bfloat16 weights, for which AdamW keeps its state in bfloat16."""
    _train(Model(layers=32).cuda().bfloat16(), batch=1, length=64)


@program("", "recomputation")
def recomputation(fixed: bool) -> None:
    """Recompute each block in the backward pass."""
    model = Model(layers=6).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for ids in batches(12):
        hidden = model.embedding(ids)
        for block in model.blocks:
            hidden = checkpoint(block, hidden, use_reentrant=False)
        step(optimizer, hidden.square().mean())


@program("", "two towers of one class, both trained")
def two_towers(fixed: bool) -> None:
    """Train two models of equal sizes, neither of which is a copy."""
    first, second = Model(layers=4).cuda(), Model(layers=4).cuda()
    optimizer = torch.optim.AdamW([*first.parameters(), *second.parameters()], fused=True)

    def loss(first: Model, ids: Tensor) -> Tensor:
        return mean_of_hidden(first, ids) + mean_of_hidden(second, ids)

    train(first, optimizer, count=12, batch=2, loss=loss)


@program("", "a network of convolutions")
def convolutions(fixed: bool) -> None:
    """Train a convolutional network, and evaluate it."""
    layers = [
        nn.Sequential(nn.Conv2d(64, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU())
        for _ in range(6)
    ]
    net = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), *layers, nn.AdaptiveAvgPool2d(1)).cuda()
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)
    for _ in range(12):
        step(optimizer, net(torch.ones(8, 3, 64, 64, device="cuda")).square().mean())
    net.eval()
    with torch.no_grad():
        net(torch.ones(32, 3, 64, 64, device="cuda")).sum().item()


@program("", "words one by one, with a cache of keys and values")
def generation(fixed: bool) -> None:
    """Write the keys and values of each token into a cache of fixed size."""
    model = Model(layers=6).cuda()
    cache = [torch.zeros(2, 16, 512, 256, device="cuda") for _ in model.blocks]
    with torch.no_grad():
        for number in range(24):
            hidden = model.embedding(torch.zeros(16, 1, dtype=torch.long, device="cuda"))
            for kept, block in zip(cache, model.blocks, strict=True):
                pair = block.joint(hidden)[:, 0, :512].unflatten(1, (2, 256))
                kept[:, :, number] = pair.transpose(0, 1)
                hidden = block(hidden)
            model.head(hidden).argmax(-1)


@program("", "DDP with gradients as views of the buckets")
def views_of_buckets(fixed: bool) -> None:
    """Train under DDP with gradients as views of the buckets."""
    begin(2)
    _train(replicated(Model(layers=6), views=True), count=12, batch=2, loss=mean_of_logits)


@program("", "DDP with accumulated gradients")
def accumulated_in_ddp(fixed: bool) -> None:
    """Accumulate under `no_sync`, where gradients are never views of the buckets."""
    begin(2)
    model = replicated(Model(layers=32), views=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number, ids in enumerate(batches(12, batch=1, length=32)):
        is_last = number % 3 == 2
        with nullcontext() if is_last else model.no_sync():
            model(ids).square().mean().backward()
        if is_last:
            optimizer.step()
            optimizer.zero_grad()


@program("", "FSDP of each block")
def sharded_blocks(fixed: bool) -> None:
    """Shard each block, so that FSDP gathers one block at a time."""
    begin(8)
    model = Model(layers=12).cuda()
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    _train(model, count=8, batch=2, loss=mean_of_logits)


@program("", "FSDP that gathers one block ahead")
def sharded_with_prefetch(fixed: bool) -> None:
    """Gather one block ahead, and keep the last block for the backward pass."""
    begin(8)
    model = Model(layers=12).cuda()
    blocks = list(model.blocks)
    for block in blocks:
        fully_shard(block, reshard_after_forward=block is not blocks[-1])
    fully_shard(model)
    for block, following in pairwise(blocks):
        block.set_modules_to_forward_prefetch([following])
        following.set_modules_to_backward_prefetch([block])
    _train(model, count=8, batch=2, loss=mean_of_logits)


@program("", "a resumed training")
def resumed(fixed: bool) -> object:
    """Load a checkpoint to the host, and copy its weights to the model."""
    file = saved(Model(layers=8).cuda().state_dict())
    model = Model(layers=8).cuda()
    model.load_state_dict(torch.load(file, map_location="cpu"))
    _train(model, count=12, batch=4)
    return model


@program("", "a resumed training whose momentum is loaded to the device")
def resumed_momentum(fixed: bool) -> object:
    """Load momentum to the device, where it becomes the optimizer's state."""
    model = Model(layers=8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(next(batches(1, batch=1))).square().mean().backward()
    optimizer.step()
    file = saved(optimizer.state_dict())
    del model, optimizer

    model = Model(layers=8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    optimizer.load_state_dict(torch.load(file, map_location="cuda"))
    train(model, optimizer, count=12, batch=2, loss=mean_of_logits)
    return optimizer


class _Rounded:
    """Optimizer with momentum on the device, which rounds gradients to bfloat16."""

    def __init__(self, model: Model, state: dict[str, torch.Tensor]) -> None:
        self.pairs = [(one, state[name]) for name, one in model.named_parameters()]

    @torch.no_grad()
    def step(self) -> None:
        """Update one parameter at a time."""
        for one, momentum in self.pairs:
            if one.grad is not None:
                momentum.mul_(0.9).add_(one.grad.bfloat16().float())
                one.add_(momentum, alpha=-0.1)
                one.grad = None


@program("", "a resumed training whose step casts gradients")
def resumed_and_cast(fixed: bool) -> object:
    """Use loaded momentum, in steps that request tensors of the same sizes."""
    model = Model(layers=8).cuda()
    file = saved({name: one.detach() for name, one in model.named_parameters()})
    optimizer = _Rounded(model, torch.load(file, map_location="cuda"))
    for ids in batches(12, batch=2):
        model(ids).square().mean().backward()
        optimizer.step()
    return optimizer


@program("", "a model that is loaded as it was saved")
def loaded_model(fixed: bool) -> object:
    """Load weights that become the model's parameters without a copy."""
    file = saved(Model(layers=8).cuda().state_dict())
    model = Model(layers=8)
    model.load_state_dict(torch.load(file, map_location="cuda"), assign=True)
    _train(model, count=12, batch=4)
    return model


@program("", "a generator and a discriminator")
def adversaries(fixed: bool) -> None:
    """Train a generator and a discriminator in turn."""
    maker = nn.Sequential(nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 4096)).cuda()
    judge = nn.Sequential(nn.Linear(4096, 1024), nn.ReLU(), nn.Linear(1024, 1)).cuda()
    both = [torch.optim.AdamW(one.parameters(), fused=True) for one in (maker, judge)]
    for _ in range(12):
        made = maker(torch.ones(2048, 64, device="cuda"))
        for optimizer, of_maker in zip(both, (True, False), strict=True):
            optimizer.zero_grad()
            judge(made if of_maker else made.detach()).mean().backward()
            optimizer.step()
        del made


@program("", "batches of many lengths")
def many_lengths(fixed: bool) -> None:
    """Train with batches of eight different lengths."""
    model = Model().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for number in range(16):
        train(model, optimizer, count=1, length=64 + 32 * (number * 7 % 8))


@program("", "a recurrent network")
def recurrent(fixed: bool) -> None:
    """Backpropagate through eight time steps, and detach the state before the next eight."""
    cell = nn.GRUCell(512, 512).cuda()
    optimizer = torch.optim.AdamW(cell.parameters(), fused=True)
    state = torch.zeros(256, 512, device="cuda")
    for _ in range(12):
        state = state.detach()
        for _ in range(8):
            state = cell(torch.ones(256, 512, device="cuda"), state)
        step(optimizer, state.square().mean())
