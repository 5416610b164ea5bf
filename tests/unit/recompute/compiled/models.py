"""Small models whose forward pass is not a single graph."""

import random

import torch
from torch import nn
from torch.nn import functional

from tests.unit.recompute import steps

WIDTH = 16


def opaque(x):
    """Scale `x` by a value that Python reads, which breaks the graph."""
    return x * (0.5 + x.detach().abs().mean().item())


class Block(nn.Module):
    def __init__(self, rate=0.1):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.widen, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.dropout = nn.Dropout(rate)

    def forward(self, x):
        return x + self.dropout(self.narrow(functional.gelu(self.widen(self.norm(x)))))


class Blocks(nn.Module):
    """Blocks with a graph break between them; the model counts its calls."""

    def __init__(self, depth=3):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(depth))
        self.head = nn.Linear(WIDTH, 4)
        self.calls = 0

    def between(self, x):
        return opaque(x)

    def forward(self, x, labels):
        self.calls += 1
        for block in self.blocks:
            x = self.between(block(x))
        return functional.cross_entropy(self.head(x), labels)


class Whole(Blocks):
    """A model that is a single graph, and does not count its calls."""

    def forward(self, x, labels):
        for block in self.blocks:
            x = block(x)
        return functional.cross_entropy(self.head(x), labels)


class LayerDrop(Blocks):
    """A model in which Python's random numbers decide which blocks run."""

    def forward(self, x, labels):
        for block in self.blocks:
            if random.random() < 0.5:
                x = block(x)
        return functional.cross_entropy(self.head(x), labels)


class Shared(Blocks):
    """A model that runs one block three times, and shares a weight with code outside of graphs."""

    def forward(self, x, labels):
        for _ in range(3):
            x = self.between(self.blocks[0](x))
        x = functional.linear(x, self.blocks[1].widen.weight)[:, :WIDTH]
        return functional.cross_entropy(self.head(self.blocks[1](x)), labels)


class Written(Blocks):
    """A model whose code outside of graphs writes into their outputs."""

    def between(self, x):
        x = opaque(x)
        x += 1
        return x.mul_(0.5)


class Hidden(Blocks):
    """A model with several results, only one of which is differentiated."""

    def forward(self, x, labels):
        aside, states = self.blocks[0](x), []
        for block in self.blocks:
            x = self.between(block(x))
            states.append(x)
        loss = functional.cross_entropy(self.head(x), labels)
        return {"loss": loss, "states": states, "aside": aside}


class Convolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True),
            nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True),
        )  # fmt: skip

    def forward(self, x):
        return self.body(x)


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Convolution() for _ in range(2))

    def forward(self, x, labels):
        x = x.unflatten(1, (4, 2, 2))
        for layer in self.layers:
            x = opaque(layer(x))
        return functional.cross_entropy(x.mean((2, 3)), labels)


class Attends(nn.Module):
    """A layer that reads its second input twice."""

    def __init__(self):
        super().__init__()
        self.keys, self.values = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.block = Block()

    def forward(self, x, memory):
        weights = functional.softmax(x @ self.keys(memory).T, -1)
        return self.block(x + weights @ self.values(memory))


class Decoder(nn.Module):
    """A decoder whose layers read one memory."""

    def __init__(self):
        super().__init__()
        self.encoder = Block()
        self.layers = nn.ModuleList(Attends() for _ in range(3))

    def forward(self, x, labels):
        memory, found = opaque(self.encoder(x)), 0.5 * x
        for layer in self.layers:
            found = opaque(layer(found, memory))
        return functional.cross_entropy(found, labels)


class Experts(nn.Module):
    """Experts whose numbers of rows depend on values, so that shapes differ in each step."""

    def __init__(self):
        super().__init__()
        self.block, self.gate = Block(), nn.Linear(WIDTH, 2)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 32), nn.GELU(), nn.Linear(32, WIDTH)) for _ in range(2)
        )

    def forward(self, x, labels):
        x = self.block(x)
        chosen = self.gate(x).argmax(-1)
        counts = torch.bincount(chosen, minlength=2).tolist()
        found = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            if counts[number]:
                rows = (chosen == number).nonzero().squeeze(1)
                found = found.index_add(0, rows, expert(x[rows]))
        return functional.cross_entropy(x + found, labels)


def batch(seed, rows=64):
    generator = torch.Generator().manual_seed(seed)
    return (
        torch.randn(rows, WIDTH, generator=generator),
        torch.randint(4, (rows,), generator=generator),
    )


def step(model, inputs, seed):
    """Run a step on a batch, and return all that it computes, as `steps.step` does."""
    return steps.step(model, *inputs, seed=seed)
