"""Programs that allocate in a live `torch.cuda.MemPool`.

    build/fakecuda/run PYTHON -m pgmo run tests/fakecuda/private_pools/pool_programs.py convert

convert      load the weights of a decoder in a pool, convert two thirds of them to 8 bits there,
             and then allocate a key-value cache outside of the pool
layerwise    like `convert`, but convert each layer right after it is loaded
alternate    alternately generate in one pool and train in another
after_eager  free memory outside of a pool, and then allocate as much within it

The last line of the output is the card's peak in MiB.
"""

import argparse
import ctypes
import os
from collections.abc import Callable

import torch
from torch import nn
from torch.cuda import MemPool, use_mem_pool
from torch.nn import functional

MIB = 2**20
SHAPES = {"qkv": (6144, 2048), "out": (2048, 2048), "up": (11264, 2048), "down": (2048, 5632)}
"""Shapes of a decoder layer's weights. `convert_layer` converts `up` and `down`."""


def load_layer() -> dict[str, torch.Tensor]:
    return {
        name: torch.empty(shape, dtype=torch.bfloat16, device="cuda")
        for name, shape in SHAPES.items()
    }


def convert_layer(layer: dict[str, torch.Tensor]) -> None:
    for name in ("up", "down"):
        scale = layer[name].abs().amax(1, keepdim=True).float() / 448
        layer[name] = (layer[name] / scale).to(torch.float8_e4m3fn)
        layer[f"{name}.scale"] = scale


def convert(number: int, layerwise: bool = False) -> None:
    pool = MemPool()
    layers = []
    with use_mem_pool(pool):
        for _ in range(number):
            layers.append(load_layer())
            if layerwise:
                convert_layer(layers[-1])
        if not layerwise:
            for layer in layers:
                convert_layer(layer)
    cache = [
        torch.empty(2, 64, 1024, 128, dtype=torch.bfloat16, device="cuda") for _ in range(number)
    ]
    del cache, layers


def alternate(number: int) -> None:
    generating, training = MemPool(), MemPool()
    network = nn.Sequential(
        *(nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)) for _ in range(8))
    ).cuda()
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3)
    for step in range(number):
        rows = 4096 + 512 * (step % 3)
        with use_mem_pool(generating), torch.no_grad():
            caches = [torch.empty(rows * 16, 1024, device="cuda") for _ in range(8)]
            results = network(torch.empty(rows, 1024, device="cuda"))
            del caches, results
        with use_mem_pool(training):
            given = torch.empty(rows, 1024, device="cuda")
            loss = functional.mse_loss(network(given), given)
        loss.backward()
        del given, loss
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def after_eager(number: int) -> None:
    pool = MemPool()
    for _ in range(2):
        blocks = [torch.empty(64 * MIB, dtype=torch.uint8, device="cuda") for _ in range(number)]
        del blocks
        with use_mem_pool(pool):
            blocks = [
                torch.empty(64 * MIB, dtype=torch.uint8, device="cuda") for _ in range(number)
            ]
        del blocks


PROGRAMS: dict[str, tuple[int, Callable[[int], None]]] = {
    "convert": (32, convert),
    "layerwise": (32, lambda number: convert(number, layerwise=True)),
    "alternate": (9, alternate),
    "after_eager": (32, after_eager),
}
"""Default number of layers, steps or blocks of each program, and its function."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("--number", type=int, help="number of layers, steps or blocks")
    options = parser.parse_args()
    number, program = PROGRAMS[options.program]
    program(options.number or number)
    stub = ctypes.CDLL(os.environ["PGMO_FAKECUDA"])
    stub.fakecuda_peak.restype = ctypes.c_size_t
    print(stub.fakecuda_peak(0, 0) >> 20)


if __name__ == "__main__":
    main()
