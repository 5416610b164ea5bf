"""Weights and optimizer state that are on the device twice."""

import torch
from torch import Tensor, nn

from faulty import program
from faulty.models import Model, batches, mean_of_hidden, saved, step, train


@program("A copy of the model on the device", "bghira/SimpleTuner#517")
def average_on_the_device(fixed: bool) -> object:
    """Keep a moving average of the weights on the device."""
    model = Model(layers=8).cuda()
    average = [
        (one.detach().cpu() if fixed else one.detach().clone()) for one in model.parameters()
    ]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for ids in batches(8, batch=2):
        step(optimizer, mean_of_hidden(model, ids))
        for one, weight in zip(average, model.parameters(), strict=True):
            one.lerp_(weight.detach().to(one.device), 0.01)
    return average


@program("A copy of the model on the device", "NVIDIA-NeMo/RL#2484")
def reference_model(fixed: bool) -> object:
    """Keep a reference model on the device, although its outputs could be computed before."""
    model, reference = Model(layers=16).cuda(), Model(layers=16).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = list(batches(8, batch=2))
    with torch.no_grad():
        wanted = [float(mean_of_hidden(reference, ids)) for ids in data]
    if fixed:
        reference.cpu()
    for ids, target in zip(data, wanted, strict=True):
        if not fixed:
            with torch.no_grad():
                target = float(mean_of_hidden(reference, ids))
        step(optimizer, (mean_of_hidden(model, ids) - target).square())
    return reference


@program("A checkpoint stays on the device", "karpathy/nanoGPT#236")
def checkpoint_stays(fixed: bool) -> object:
    """Load a checkpoint to the device, and keep it after the model has copied it."""
    model = Model(layers=16).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    model(next(batches(1, batch=1))).square().mean().backward()
    optimizer.step()
    file = saved({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    del model, optimizer

    model = Model(layers=16).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    checkpoint = torch.load(file, map_location="cuda")
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    if fixed:
        checkpoint = None
    train(model, optimizer, count=8, batch=2)
    return checkpoint


class _Offloaded:
    """Optimizer whose momentum is on the host."""

    def __init__(self, model: nn.Module, state: dict[str, Tensor]) -> None:
        self.pairs = [(one, state[name].cpu()) for name, one in model.named_parameters()]

    @torch.no_grad()
    def step(self) -> None:
        """Update one parameter at a time."""
        for one, momentum in self.pairs:
            update = momentum.to(one.device).mul_(0.9).add_(one.grad)
            one.add_(update, alpha=-0.1)
            momentum.copy_(update)
            one.grad = None


@program("A checkpoint stays on the device", "PrimeIntellect-ai/prime-rl#2154")
def optimizer_state_twice(fixed: bool) -> object:
    """Move optimizer state to the host, but keep the checkpoint's copy on the device."""
    model = Model(layers=16).cuda()
    file = saved({name: one.detach() for name, one in model.named_parameters()})
    checkpoint = torch.load(file, map_location="cuda")
    optimizer = _Offloaded(model, checkpoint)
    if fixed:
        checkpoint.clear()
    for ids in batches(8, batch=2):
        model(ids).square().mean().backward()
        optimizer.step()
    return checkpoint
