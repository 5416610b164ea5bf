"""Programs that keep tensors that they no longer need."""

import copy

import torch
from torch import Tensor, nn

from faulty import program
from faulty.models import Model, batches, mean_of_hidden, step, train


@program("Memory leaks", "outputs in a list, for a plot at the end")
def outputs_in_a_list(fixed: bool) -> object:
    """Collect outputs in a list, with their graphs."""
    model, kept = Model().cuda(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for ids in batches(24, batch=2):
        hidden = model.hidden(ids)
        loss = hidden.square().mean()
        kept.append(float(loss) if fixed else hidden)
        step(optimizer, loss)
    return kept


class _Scale(torch.autograd.Function):
    """Function whose context keeps its own result, which is a reference cycle."""

    fixed = False

    @staticmethod
    def forward(ctx, x):  # type: ignore[no-untyped-def]
        result = x * 1.5
        if not _Scale.fixed:
            ctx.result = result
        return result

    @staticmethod
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        return gradient * 1.5


@program("Memory leaks", "NVIDIA/warp#675")
def cycle_through_a_context(fixed: bool) -> None:
    """Create a reference cycle that only Python's garbage collector frees."""
    _Scale.fixed = fixed
    net = nn.Linear(1024, 1024).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(24):
        y: Tensor = _Scale.apply(net(torch.ones(1024, 1024, device="cuda")))  # type: ignore
        step(optimizer, y.square().mean())


@program("A copy of the model on the device", "facebookresearch/pytext#204")
def best_weights_on_the_device(fixed: bool) -> object:
    """Keep the best state so far as a deep copy on the device."""
    model = Model(layers=8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    best: dict[str, Tensor] = {}
    for number, ids in enumerate(batches(8, batch=2)):
        if number == 2:
            state = model.state_dict()
            best = (
                {name: one.cpu() for name, one in state.items()} if fixed else copy.deepcopy(state)
            )
        step(optimizer, mean_of_hidden(model, ids))
    return best


@program("Gradients of the last iteration at the peak", "facebookresearch/detectron2#4905")
def late_zero_grad(fixed: bool) -> None:
    """Call zero_grad after the forward pass, in which the last gradients are alive."""
    model = Model(layers=16, words=32000).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for ids in batches(8, batch=2):
        if fixed:
            optimizer.zero_grad()
        loss = mean_of_hidden(model, ids)
        if not fixed:
            optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("Gradients of the last iteration at the peak", "MIC-DKFZ/nnUNet#1630")
def zeroed_gradients(fixed: bool) -> None:
    """Fill gradients with zeros, so that they are alive in the forward pass."""
    model = Model(layers=16, words=32000).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for ids in batches(8, batch=2):
        optimizer.zero_grad(set_to_none=fixed)
        mean_of_hidden(model, ids).backward()
        optimizer.step()


@program("Memory leaks", "isds-neu/PeRCNN#3")
def state_not_detached(fixed: bool) -> object:
    """Keep a recurrent state with the graph of all earlier steps."""
    cell, head = nn.GRUCell(512, 512).cuda(), nn.Linear(512, 512).cuda()
    optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)
    state = torch.zeros(512, 512, device="cuda")
    for _ in range(24):
        state = cell(torch.ones(512, 512, device="cuda"), state.detach() if fixed else state)
        head(state).square().mean().backward(retain_graph=not fixed)
        optimizer.zero_grad()
    return state


@program(
    "A graph outlives its backward pass",
    "GBLin5566/toward-controlled-generation-of-text-pytorch#9",
)
def retained_graph(fixed: bool) -> None:
    """Retain each graph, although no second backward pass follows."""
    model = Model(layers=8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for ids in batches(8, batch=8):
        loss = mean_of_hidden(model, ids)
        loss.backward(retain_graph=not fixed)
        optimizer.step()
        optimizer.zero_grad()


@program("The last iteration's data at the peak", "meta-pytorch/tnt#6")
def last_outputs(fixed: bool) -> None:
    """Keep the logits of a batch alive until the next batch has computed its own."""
    model = Model(words=16000).cuda()
    with torch.no_grad():
        for ids in batches(12, batch=8):
            scores = model(ids)
            int(scores.argmax(-1).sum())
            if fixed:
                del scores


@program("Memory leaks", "utkuozbulak/pytorch-cnn-visualizations#53")
def hooks_keep_outputs(fixed: bool) -> object:
    """Keep an output of each iteration on the device, by a forward hook."""
    model = Model(layers=8).cuda()
    kept: list[Tensor] = []

    def keep(_module: nn.Module, _inputs: object, output: Tensor) -> None:
        kept.append(output.detach().cpu() if fixed else output.detach())

    model.blocks[3].register_forward_hook(keep)
    train(model, count=24)
    return kept
