"""Programs that capture many graphs, each with a pool of its own.

    build/fakecuda/run PYTHON -m pgmo run tests/fakecuda/graphs/graphed_programs.py layers

`layers` has a graph for the forward and one for the backward pass of each layer of a decoder.
`sizes` trains a convolutional network with both graphs for each image size. `inference` has a graph
for each batch size of a decoder. `beside` trains a network between the replays of `inference`.
`trees` trains a compiled decoder at several lengths, with graph trees. The last line of the output
is the card's peak in MiB.
"""

import argparse
import ctypes
import os
import random
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

BATCHES = (1, 2, 4, 8, *range(16, 112, 8))
"""Batch sizes of `inference`."""


class Block(nn.Module):
    """Layer of a decoder with eager attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_network = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        shape = (batch, length, 3, self.heads, width // self.heads)
        q, k, v = self.qkv(self.before_attention(x)).view(shape).permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(-1, -2) * (width // self.heads) ** -0.5).softmax(-1)
        x = x + self.projection((weights @ v).transpose(1, 2).reshape(x.shape))
        return x + self.down(functional.gelu(self.up(self.before_network(x))))


def train_layers(number: int, eager: bool, width: int, length: int) -> None:
    blocks = nn.ModuleList(Block(width, 12) for _ in range(number)).cuda()
    optimizer = torch.optim.SGD(blocks.parameters(), lr=1e-3)

    def given() -> torch.Tensor:
        return torch.zeros(8, length, width, device="cuda").requires_grad_()

    layers = [
        block if eager else torch.cuda.make_graphed_callables(block, (given(),)) for block in blocks
    ]
    for _ in range(6):
        x = given()
        for layer in layers:
            x = layer(x)
        x.square().mean().backward()
        del x
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def train_sizes(number: int, eager: bool) -> None:
    def convolution(given: int, made: int) -> nn.Conv2d:
        return nn.Conv2d(given, made, 3, padding=1)

    network = nn.Sequential(
        convolution(3, 64), nn.ReLU(), convolution(64, 128), nn.ReLU(), convolution(128, 64)
    ).cuda()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)

    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.network(x)

    sides = [256 + 32 * at for at in range(7)]
    sides += [240 + 32 * at for at in range(number - len(sides))]
    graphs = {}
    for step in range(3 * number):
        side = sides[step % number]
        if side not in graphs:
            given = torch.zeros(4, 3, side, side, device="cuda")
            graphs[side] = network if eager else torch.cuda.make_graphed_callables(Tied(), (given,))
            del given
        images = torch.empty(4, 3, side, side, device="cuda")
        graphs[side](images).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)


def infer(number: int, eager: bool, between: Callable[[], None] | None = None) -> None:
    """Replay graphs at random, and call `between` 10 times between replays."""
    with torch.no_grad():
        graphs = capture_sizes(number, eager)
        draw = random.Random(0)
    for step in range(200):
        with torch.no_grad():
            draw.choice(graphs)[1]()
        if between is not None and step % 20 == 19:
            between()


def capture_sizes(number: int, eager: bool) -> list[tuple[Any, ...]]:
    """Return for each batch size the input, a function that computes the result, and the result."""
    model = nn.Sequential(*(Block(768, 12) for _ in range(6))).cuda()
    graphs: list[tuple[Any, ...]] = []
    for batch in sorted(BATCHES[:number], reverse=True):
        given, graph = torch.zeros(batch, 128, 768, device="cuda"), torch.cuda.CUDAGraph()
        if eager:
            graphs.append((given, lambda given=given: model(given)))
            continue
        model(given)
        with torch.cuda.graph(graph):
            result = model(given)
        graphs.append((given, graph.replay, result))
    return graphs


def train_beside(number: int, eager: bool) -> None:
    network = nn.Sequential(*(Block(768, 12) for _ in range(4))).cuda()
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3)

    def train() -> None:
        given = torch.zeros(24, 256, 768, device="cuda")
        network(given).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    infer(number, eager, between=train)


def train_trees(number: int, eager: bool) -> None:
    network = nn.Sequential(*(Block(768, 12) for _ in range(6))).cuda()
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3)
    compiled = network if eager else torch.compile(network, backend="cudagraphs", dynamic=False)
    for step in range(6 * number):
        torch.compiler.cudagraph_mark_step_begin()
        given = torch.zeros(8, 256 - 64 * (step % number), 768, device="cuda")
        compiled(given).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", choices=("layers", "sizes", "inference", "beside", "trees"))
    parser.add_argument("--number", type=int, help="of layers or sizes")
    parser.add_argument("--width", type=int, default=768, help="of layers")
    parser.add_argument("--length", type=int, default=256, help="of layers' sequences")
    parser.add_argument("--eager", action="store_true", help="without graphs")
    options = parser.parse_args()
    if options.program == "layers":
        train_layers(options.number or 24, options.eager, options.width, options.length)
    elif options.program == "sizes":
        train_sizes(options.number or 11, options.eager)
    elif options.program == "trees":
        train_trees(options.number or 2, options.eager)
    elif options.program == "beside":
        train_beside(options.number or len(BATCHES), options.eager)
    else:
        infer(options.number or len(BATCHES), options.eager)
    stub = ctypes.CDLL(os.environ["PGMO_FAKECUDA"])
    stub.fakecuda_peak.restype = ctypes.c_size_t
    print(stub.fakecuda_peak(0, 0) >> 20)


if __name__ == "__main__":
    main()
