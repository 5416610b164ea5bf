"""What the programs have in common: their arguments, and what they leave behind.

None of them knows of pgmo. Each trains a model with random weights on data made up by itself, and
its end writes what it computed: the losses, and a digest of all weights.
"""

import argparse
import hashlib
import json
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

T = TypeVar("T")


@dataclass(frozen=True)
class Arguments:
    """How a program is run.

    Args:
        steps: of its optimizer, or of all of them together.
        small: a tiny network, for tests.
        result: the file for what was computed.
    """

    steps: int
    small: bool
    result: Path | None

    def choose(self, real: T, small: T) -> T:
        """What belongs to this size."""
        return small if self.small else real


def arguments() -> Arguments:
    """Those of the command line; seeds the generators, too."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--result", type=Path)
    torch.manual_seed(0)
    return Arguments(**vars(parser.parse_args()))


def device() -> torch.device:
    """As programs choose it."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def folder() -> "tempfile.TemporaryDirectory[str]":
    """Where checkpoints go."""
    return tempfile.TemporaryDirectory()


def finish(
    given: Arguments, modules: nn.Module | Iterable[nn.Module], losses: Sequence[Any]
) -> None:
    """Writes what was computed.

    Args:
        given: the program's arguments.
        modules: whose weights and buffers count.
        losses: numbers, or whatever else was computed, as tokens.
    """
    if given.result is None:
        return
    total = hashlib.sha256()
    for module in [modules] if isinstance(modules, nn.Module) else modules:
        for name, tensor in module.state_dict().items():
            total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            total.update(_bytes(tensor))
    shown = [float(one).hex() for one in losses]
    given.result.write_text(json.dumps({"losses": shown, "digest": total.hexdigest()}))


def _bytes(tensor: Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes()


def cycle(loader: Iterable[T], steps: int, step: Callable[[int, T], None]) -> None:
    """Goes through the loader again and again, up to so many steps."""
    done = 0
    while True:
        for batch in loader:
            if done == steps:
                return
            step(done, batch)
            done += 1
