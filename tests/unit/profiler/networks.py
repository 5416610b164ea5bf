"""Small networks to tag, and a log of the tags."""

import threading
from contextlib import contextmanager
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from pgmo.allocator.adapters.torch_cpu import torch_cpu  # noqa: E402
from pgmo.profiler.tagging.tags import Tagger  # noqa: E402


class Log:
    """A stand-in for the engine: the set tags in order, and the current tag of each thread."""

    def __init__(self):
        self.tagger = None
        self.numbers = []
        self.now = {}

    def __call__(self, number):
        self.now[threading.get_ident()] = number
        if number >= 0:
            self.numbers.append(number)

    def tags(self):
        return [self.tagger.tags[number] for number in self.numbers]

    def without_lines(self):
        return [replace(tag, file="") for tag in self.tags()]


def tagger_with(set_tag, tags=()):
    """Return a tagger for the operators of this process."""
    tagger = Tagger(set_tag, torch_cpu().operators, tags)
    if isinstance(set_tag, Log):
        set_tag.tagger = tagger
    return tagger


@contextmanager
def logged():
    """Tag all requests in the context, and yield their log."""
    log = Log()
    with tagger_with(log):
        yield log


class Block(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return x + self.mlp(self.norm(x))


class Net(nn.Module):
    def __init__(self, checkpointed=False):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(8, 8)
        self.checkpointed = checkpointed

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        return self.head(x)


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
        self.classify = nn.Linear(4, 8)

    def forward(self, x):
        return self.classify(self.features(x).mean((2, 3)))


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(8, 8)

    def forward(self, x):
        return self.lstm(x)[0]


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)

    def forward(self, x):
        return self.layer(x)


NETWORKS = {
    "blocks": (Net, (4, 8)),
    "checkpointed": (lambda: Net(True), (4, 8)),
    "conv": (ConvNet, (2, 1, 8, 8)),
    "lstm": (Lstm, (5, 2, 8)),
    "attention": (Attention, (2, 5, 8)),
}
