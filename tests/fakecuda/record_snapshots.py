"""Recording of memory snapshots of a transformer on the stub CUDA runtime.

    build/fakecuda/run PYTHON tests/fakecuda/record_snapshots.py step a.pickle
    build/fakecuda/run PYTHON tests/fakecuda/record_snapshots.py --all

Python's frames are recorded. The backward pass has none, because it runs on autograd's own thread.
`--all` writes all files of tests/unit/profiler/importers/recorded, with paths that do not depend on
the machine. The script prints PyTorch's peak, with which a test compares.
"""

import argparse
import gzip
import json
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

RECORDED = Path(__file__).parents[1] / "unit/profiler/importers/recorded"
LAYERS, WIDTH, HEADS, TOKENS, BATCH, LENGTH = 24, 256, 4, 4096, 8, 64
MICRO_BATCHES = 12


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.project, self.mix = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.widen, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.project(self.norm1(x)).view(BATCH, LENGTH, 3, HEADS, WIDTH // HEADS)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        seen = functional.softmax(query @ key.transpose(-1, -2) / 8, -1) @ value
        x = x + self.mix(seen.transpose(1, 2).reshape(x.shape))
        return x + self.narrow(functional.gelu(self.widen(self.norm2(x))))


class Model(nn.Module):
    def __init__(self, recompute: bool) -> None:
        super().__init__()
        self.recompute = recompute
        self.tokens = nn.Embedding(TOKENS, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, TOKENS, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.recompute else layer(x)
        return self.head(self.norm(x))


class Training:
    """Training of a case: its recorded part, and the part before."""

    def __init__(self, recompute: bool = False, adam: bool = False) -> None:
        self.model = Model(recompute).cuda()
        kind = torch.optim.AdamW if adam else torch.optim.SGD
        self.optimizer = kind(self.model.parameters(), lr=0.1)

    def loss(self) -> Tensor:
        tokens = torch.zeros(BATCH, LENGTH, dtype=torch.long, device="cuda")
        return functional.cross_entropy(self.model(tokens).view(-1, TOKENS), tokens.view(-1))

    def step(self, micro_batches: int = 1) -> None:
        for _ in range(micro_batches):
            self.loss().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def infer(self, batches: int) -> None:
        tokens = torch.zeros(BATCH, LENGTH, dtype=torch.long, device="cuda")
        with torch.no_grad():
            for _ in range(batches):
                self.model(tokens)


def start() -> None:
    torch.cuda.memory._record_memory_history(stacks="python", max_entries=1_000_000)
    torch.cuda.reset_peak_memory_stats()


def _backward(recompute: bool) -> None:
    loss = Training(recompute).loss()
    start()
    loss.backward()


def _steps(count: int, **options: Any) -> None:
    training = Training(**options)
    start()
    for _ in range(count):
        training.step()


def _accumulated() -> None:
    training = Training(adam=True)
    start()
    training.step(MICRO_BATCHES)


def _forward() -> None:
    training = Training()
    start()
    training.loss()


def _inference(batches: int) -> None:
    training = Training()
    training.infer(1)
    start()
    training.infer(batches)


CASES: dict[str, Callable[[], None]] = {
    "step": lambda: _steps(1),
    "recomputed_step": lambda: _steps(1, recompute=True, adam=True),
    "accumulated_step": _accumulated,
    "five_steps": lambda: _steps(5, adam=True),
    "forward": _forward,
    "backward": lambda: _backward(recompute=False),
    "recomputed_backward": lambda: _backward(recompute=True),
    "inference": lambda: _inference(1),
    "five_inferences": lambda: _inference(5),
}
KEPT = ("step", "backward", "recomputed_backward", "five_inferences")
"""Cases that tests without the stub also read."""


def plain(value: Any) -> Any:
    """Return a snapshot whose frames have file names that do not depend on the machine."""
    if isinstance(value, dict):
        return {key: plain(own) for key, own in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(plain(own) for own in value)
    if isinstance(value, str) and value.startswith("/"):
        value = re.sub(r"^.*/site-packages/", "/venv/lib/python3.11/site-packages/", value)
        return value.replace(str(Path(__file__).resolve()), "/home/someone/train.py")
    return value


def shared(value: dict[str, Any]) -> bytes:
    """Return a pickle in which equal frames are one object, as in PyTorch's pickles."""
    known: dict[str, Any] = {}

    def one(own: Any) -> Any:
        if isinstance(own, dict):
            made: Any = {key: one(inner) for key, inner in own.items()}
        elif isinstance(own, list):
            made = [one(inner) for inner in own]
        else:
            return own
        is_frame = isinstance(made, dict) and "filename" in made
        is_stack = isinstance(made, list) and made and "filename" in made[0]
        return known.setdefault(repr(made), made) if is_frame or is_stack else made

    return pickle.dumps(one(plain(value)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("case", nargs="?", choices=CASES)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--all", action="store_true")
    arguments = parser.parse_args()
    if arguments.all:
        RECORDED.mkdir(exist_ok=True)
        for case in KEPT:
            target = RECORDED / f"{case}.pickle.gz"
            subprocess.run([sys.executable, __file__, case, str(target)], check=True)
        return
    torch.backends.cudnn.enabled = False
    CASES[arguments.case]()
    saved = shared(torch.cuda.memory._snapshot())
    packed = arguments.file.suffix == ".gz"
    arguments.file.write_bytes(gzip.compress(saved, mtime=0) if packed else saved)
    peak = torch.cuda.memory_stats()["requested_bytes.all.peak"]
    print(json.dumps({"peak": peak, "torch": torch.__version__}))


if __name__ == "__main__":
    main()
