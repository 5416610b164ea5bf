"""Programs that keep what they no longer need."""

import copy

import torch
from torch import Tensor, nn

from faulty import program
from faulty.models import Model, batches, mean_of_hidden


@program("Memory leaks", "outputs in a list, for a plot at the end")
def outputs_in_a_list(mended: bool) -> object:
    """A list of outputs, with their graphs."""
    model, kept = Model().cuda(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for ids in batches(24, batch=2):
        hidden = model.hidden(ids)
        loss = hidden.square().mean()
        kept.append(float(loss) if mended else hidden)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return kept


class _Scale(torch.autograd.Function):
    """A function whose context keeps its own result: a cycle."""

    mended = False

    @staticmethod
    def forward(ctx, x):  # type: ignore[no-untyped-def]
        result = x * 1.5
        if not _Scale.mended:
            ctx.result = result
        return result

    @staticmethod
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        return gradient * 1.5


@program("Memory leaks", "NVIDIA/warp#675")
def cycle_through_a_context(mended: bool) -> None:
    """A cycle that only Python's garbage collector frees."""
    _Scale.mended = mended
    net = nn.Linear(1024, 1024).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(24):
        y: Tensor = _Scale.apply(net(torch.ones(1024, 1024, device="cuda")))  # type: ignore
        y.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


@program("A copy of the model on the device", "facebookresearch/pytext#204")
def best_weights_on_the_device(mended: bool) -> object:
    """The best state so far is kept as a deep copy."""
    model = Model(layers=8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    best: dict[str, Tensor] = {}
    for number, ids in enumerate(batches(8, batch=2)):
        if number == 2:
            state = model.state_dict()
            best = (
                {name: one.cpu() for name, one in state.items()} if mended else copy.deepcopy(state)
            )
        mean_of_hidden(model, ids).backward()
        optimizer.step()
        optimizer.zero_grad()
    return best


@program("Gradients of the last iteration at the peak", "zero_grad after the forward pass")
def late_zero_grad(mended: bool) -> None:
    """Gradients of the iteration before live through the forward pass."""
    model = Model(layers=16, words=32000).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for ids in batches(8, batch=2):
        if mended:
            optimizer.zero_grad()
        loss = mean_of_hidden(model, ids)
        if not mended:
            optimizer.zero_grad()
        loss.backward()
        optimizer.step()
