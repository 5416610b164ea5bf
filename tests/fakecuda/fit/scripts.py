"""Scripts for rehearsals, and functions that run them."""

import textwrap
from pathlib import Path

from pgmo.cards import Card
from pgmo.rehearsal import Rehearsal, rehearse
from pgmo.rehearsal.environment import context_bytes

TRAIN = textwrap.dedent("""
    import argparse, torch
    from torch import nn

    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--steps", type=int, default=8)
    given = parser.parse_args()

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.widen = nn.LayerNorm(256), nn.Linear(256, 1024)
            self.narrow = nn.Linear(1024, 256)

        def forward(self, x):
            return x + self.narrow(nn.functional.gelu(self.widen(self.norm(x))))

    model = nn.Sequential(*[Block() for _ in range(4)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(given.steps):
        for _ in range(given.accumulate):
            model(torch.randn(given.batch_size, 512, 256).cuda()).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    print("trained at", given.batch_size, given.accumulate)
""")

ATTENTION = textwrap.dedent("""
    import argparse, torch
    from torch import nn

    parser = argparse.ArgumentParser()
    parser.add_argument("--length", type=int, default=64)
    given = parser.parse_args()

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.into, self.out = nn.Linear(128, 384), nn.Linear(128, 128)

        def forward(self, x):
            q, k, v = self.into(x).view(*x.shape[:2], 3, 4, 32).permute(2, 0, 3, 1, 4)
            scores = (q @ k.mT).softmax(-1)
            return x + self.out((scores @ v).transpose(1, 2).reshape(x.shape))

    model = nn.Sequential(*[Attention() for _ in range(4)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(10):
        model(torch.randn(4, given.length, 128).cuda()).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
""")

CONVOLUTIONS = textwrap.dedent("""
    import argparse, torch
    from torch import nn

    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    given = parser.parse_args()
    widths = [3, 64, 128, 128, 256]
    layers = [
        nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU())
        for a, b in zip(widths, widths[1:])
    ]
    model = nn.Sequential(*layers).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(10):
        model(torch.randn(given.batch_size, 3, 64, 64).cuda()).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
""")

PARAMETERS = 4 * 4 * (2 * 256 + 2 * 256 * 1024 + 1024 + 256)
"""Bytes of the model's parameters."""


def train(folder: Path) -> str:
    """Write the training script, and return its path."""
    path = folder / "train.py"
    path.write_text(TRAIN)
    return str(path)


def convolve(folder: Path) -> str:
    """Write a script whose convolutions use workspaces, and return its path."""
    path = folder / "convolve.py"
    path.write_text(CONVOLUTIONS)
    return str(path)


def attend(folder: Path) -> str:
    """Write a script with eager attention and the option --length, and return its path."""
    path = folder / "attend.py"
    path.write_text(ATTENTION)
    return str(path)


def card(mib: int) -> Card:
    """Return a card with the given memory in addition to its context."""
    plain = Card("a card", 0, 0, (8, 0), 100)
    size = (mib << 20) + context_bytes(plain)
    return Card("a card", size, size, (8, 0), 100)


def run(script: str, value: int, where: Card, way: str, option: str = "--batch-size") -> Rehearsal:
    """Run the script on a stub card to its end."""
    return rehearse([script, option, str(value)], card=where, way=way)  # type: ignore[arg-type]
