"""Twenty training steps that are small enough to prove optimal recomputation.

module, inputs = create("gated")
module(*inputs).backward()
"""

import random
from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

Made = tuple[nn.Module, tuple[Tensor, ...]]


class _Function(nn.Module):
    """Layers with a function that calls them; the loss is the mean of the squared result."""

    def __init__(self, call: Callable[[nn.ModuleList, Tensor], Tensor], *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self._call = call

    def forward(self, inputs: Tensor) -> Tensor:
        return self._call(self.layers, inputs).square().mean()


def _mlp(widths: tuple[int, ...], act: Callable[[Tensor], Tensor], samples: int = 256) -> Made:
    def call(layers: nn.ModuleList, x: Tensor) -> Tensor:
        for layer in layers[:-1]:
            x = act(layer(x))
        result: Tensor = layers[-1](x)
        return result

    layers = [nn.Linear(before, after) for before, after in pairwise(widths)]
    return _Function(call, *layers), (torch.randn(samples, widths[0]),)


def _residual(blocks: int, width: int, normalised: bool = False) -> Made:
    def call(layers: nn.ModuleList, x: Tensor) -> Tensor:
        for layer in layers:
            x = x + layer(x)
        return x

    def block() -> nn.Module:
        norm = [nn.LayerNorm(width)] if normalised else []
        return nn.Sequential(*norm, nn.Linear(width, width), nn.Tanh())

    return _Function(call, *(block() for _ in range(blocks))), (torch.randn(512, width),)


def _convolutions(channels: tuple[int, ...], side: int, normalised: bool = False) -> Made:
    def call(layers: nn.ModuleList, x: Tensor) -> Tensor:
        for layer in layers:
            x = layer(x)
        return x

    def block(before: int, after: int) -> nn.Module:
        norm = [nn.BatchNorm2d(after)] if normalised else []
        return nn.Sequential(nn.Conv2d(before, after, 3, padding=1), *norm, nn.SiLU())

    pairs = pairwise(channels)
    blocks = [block(before, after) for before, after in pairs]
    return _Function(call, *blocks), (torch.randn(4, channels[0], side, side),)


def _unet(width: int, depth: int, side: int, act: type[nn.Module] = nn.SiLU) -> Made:
    def call(layers: nn.ModuleList, x: Tensor) -> Tensor:
        kept = []
        for level in range(depth):
            x = layers[level](x)
            kept.append(x)
            x = functional.avg_pool2d(x, 2)
        for level in range(depth):
            x = functional.interpolate(x, scale_factor=2)
            x = layers[depth + level](torch.cat([x, kept.pop()], 1))
        return x

    def block(before: int, after: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(before, after, 3, padding=1), act())

    wide = [width * 2**level for level in range(depth)]
    down = [block(before, after) for before, after in zip([3, *wide], wide, strict=False)]
    up = []
    below = wide[-1]
    for level in reversed(range(depth)):
        up.append(block(below + wide[level], wide[level]))
        below = wide[level]
    return _Function(call, *down, *up), (torch.randn(2, 3, side, side),)


def _attention(width: int, length: int, heads: int = 2, fused: bool = False) -> Made:
    def call(layers: nn.ModuleList, x: Tensor) -> Tensor:
        def split(y: Tensor) -> Tensor:
            return y.unflatten(-1, (heads, -1)).transpose(1, 2)

        query, key, value = (split(layer(x)) for layer in layers[:3])
        if fused:
            mixed = functional.scaled_dot_product_attention(query, key, value)
        else:
            mixed = (query @ key.transpose(-1, -2)).softmax(-1) @ value
        return x + layers[3](mixed.transpose(1, 2).flatten(2))

    layers = [nn.Linear(width, width) for _ in range(4)]
    return _Function(call, *layers), (torch.randn(2, length, width),)


def _gated(width: int, samples: int) -> Made:
    def call(layers: nn.ModuleList, x: Tensor) -> Tensor:
        for gate, up, down in zip(layers[::3], layers[1::3], layers[2::3], strict=True):
            x = x + down(functional.silu(gate(x)) * up(x))
        return x

    def block() -> list[nn.Module]:
        wide = 3 * width
        return [nn.Linear(width, wide), nn.Linear(width, wide), nn.Linear(wide, width)]

    return _Function(call, *block(), *block()), (torch.randn(samples, width),)


def _recurrent(width: int, steps: int, samples: int) -> Made:
    def call(layers: nn.ModuleList, x: Tensor) -> Tensor:
        state = torch.zeros_like(x)
        for _ in range(steps):
            state = torch.tanh(layers[0](x) + layers[1](state))
        return state

    return _Function(call, *(nn.Linear(width, width) for _ in range(2))), (
        torch.randn(samples, width),
    )


def _lstm(width: int, steps: int, samples: int) -> Made:
    def call(layers: nn.ModuleList, x: Tensor) -> Tensor:
        state = cell = x
        for _ in range(steps):
            gates = layers[0](state)
            forget, write, out = gates.chunk(3, -1)
            cell = torch.sigmoid(forget) * cell + torch.tanh(write)
            state = torch.tanh(cell) * torch.sigmoid(out)
        return state

    return _Function(call, nn.Linear(width, 3 * width)), (torch.randn(samples, width),)


def _random(seed: int, operations: int) -> Made:
    """Return a random graph of cheap and costly operators on one or two earlier results."""
    dice = random.Random(seed)
    plan = [
        (dice.choice(("linear", "tanh", "mul", "exp", "linear")), dice.random(), dice.random())
        for _ in range(operations)
    ]
    width = 64

    def call(layers: nn.ModuleList, x: Tensor) -> Tensor:
        known = [x]
        free = iter(layers)
        for kind, near, far in plan:
            one = known[-1 - int(near**3 * len(known))]
            other = known[int(far * len(known))]
            if kind == "linear":
                known.append(next(free)(one))
            elif kind == "mul":
                known.append(one * other + other)
            else:
                known.append(torch.tanh(one) if kind == "tanh" else torch.exp(-one.square()))
        return known[-1] + known[len(known) // 2]

    layers = [nn.Linear(width, width) for kind, _, _ in plan if kind == "linear"]
    return _Function(call, *layers), (torch.randn(1024, width),)


_MAKERS: dict[str, Callable[[], Made]] = {
    "MLP of 5": lambda: _mlp((64,) * 6, torch.tanh),
    "MLP of 6": lambda: _mlp((32,) * 7, torch.relu, 512),
    "MLP, bottleneck": lambda: _mlp((256, 128, 32, 16, 32, 128, 256), torch.nn.functional.gelu),
    "MLP, widening": lambda: _mlp((16, 32, 64, 128, 256), torch.nn.functional.silu),
    "residual of 4": lambda: _residual(4, 64),
    "residual of 5": lambda: _residual(5, 32),
    "residual, normalised": lambda: _residual(3, 64, normalised=True),
    "convolutions of 5": lambda: _convolutions((3, 8, 8, 8, 8, 8), 24),
    "convolutions, widening": lambda: _convolutions((3, 4, 8, 16, 32), 16),
    "convolutions, normalised": lambda: _convolutions((3, 8, 8, 8), 24, normalised=True),
    "U-Net of 2": lambda: _unet(4, 2, 32),
    "U-Net of 3": lambda: _unet(4, 3, 32),
    "U-Net, rectified": lambda: _unet(8, 2, 32, nn.ReLU),
    "attention": lambda: _attention(32, 64),
    "attention, fused": lambda: _attention(64, 64, fused=True),
    "gated": lambda: _gated(32, 512),
    "RNN of 3": lambda: _recurrent(32, 3, 512),
    "LSTM of 2": lambda: _lstm(32, 2, 512),
    "random 1": lambda: _random(1, 8),
    "random 2": lambda: _random(2, 14),
}
NAMES = tuple(_MAKERS)


def create(name: str, seed: int = 0) -> Made:
    """Build a module that returns its loss, and its inputs; equal seeds give equal bits.

    Args:
        name: one of `NAMES`.
        seed: seed of weights and inputs.
    """
    torch.manual_seed(seed)
    return _MAKERS[name]()
