"""Scripts for rehearsals, and functions that run them."""

from pathlib import Path

from pgmo.cards import Card
from pgmo.rehearsal import Rehearsal, rehearse
from pgmo.rehearsal.environment import context_bytes

BEGIN = """
import argparse, torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--length", type=int, default=64)
parser.add_argument("--accumulate", type=int, default=1)
parser.add_argument("--steps", type=int, default=10)
given = parser.parse_args()
"""

_TRAIN = """
model = nn.Sequential(*layers).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for step in range(given.steps):
    for _ in range(given.accumulate):
        model(torch.randn(shape).cuda()).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
print("trained at", given.batch_size, given.accumulate)
"""

BLOCKS = f"""{BEGIN}
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.widen = nn.LayerNorm(256), nn.Linear(256, 1024)
        self.narrow = nn.Linear(1024, 256)

    def forward(self, x):
        return x + self.narrow(nn.functional.gelu(self.widen(self.norm(x))))

shape = given.batch_size, 512, 256
layers = [Block() for _ in range(4)]
{_TRAIN}"""

PARAMETERS = 4 * 4 * (2 * 256 + 2 * 256 * 1024 + 1024 + 256)
"""Bytes of the parameters of `BLOCKS`."""

ATTENTION = f"""{BEGIN}
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.into, self.out = nn.Linear(128, 384), nn.Linear(128, 128)

    def forward(self, x):
        q, k, v = self.into(x).view(*x.shape[:2], 3, 4, 32).permute(2, 0, 3, 1, 4)
        scores = (q @ k.mT).softmax(-1)
        return x + self.out((scores @ v).transpose(1, 2).reshape(x.shape))

shape = 4, given.length, 128
layers = [Attention() for _ in range(4)]
{_TRAIN}"""

CONVOLUTIONS = f"""{BEGIN}
widths = [3, 64, 128, 128, 256]
layers = [
    nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU())
    for a, b in zip(widths, widths[1:])
]
shape = given.batch_size, 3, 64, 64
{_TRAIN}"""


def write(folder: Path, code: str = BLOCKS) -> str:
    """Write a script, and return its path."""
    path = folder / "train.py"
    path.write_text(code)
    return str(path)


def card(mib: int) -> Card:
    """Return a card with the given memory in addition to its context."""
    plain = Card("a card", 0, 0, (8, 0), 100)
    size = (mib << 20) + context_bytes(plain)
    return Card("a card", size, size, (8, 0), 100)


def run(script: str, value: int, where: Card, way: str, option: str = "--batch-size") -> Rehearsal:
    """Run the script on a stub card to its end."""
    return rehearse([script, option, str(value)], card=where, way=way)  # type: ignore[arg-type]
