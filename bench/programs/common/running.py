"""Arguments of the programs, and the results that they write.

The programs do not import pgmo. Each trains a model with random weights on data that it makes up.
At its end it writes its results: the losses, and a digest of all weights.
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
    """Arguments of a program.

    Args:
        steps: number of optimizer steps. A program with several optimizers defines what a step is.
        small: whether to build a tiny network, for tests.
        result: file for the results; None for no file.
    """

    steps: int
    small: bool
    result: Path | None

    def choose(self, real: T, small: T) -> T:
        return small if self.small else real


def arguments() -> Arguments:
    """Parse the arguments of the command line, and seed torch's generators."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--result", type=Path)
    torch.manual_seed(0)
    return Arguments(**vars(parser.parse_args()))


def device() -> torch.device:
    """Return the CUDA device, or the CPU if there is none."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def folder() -> "tempfile.TemporaryDirectory[str]":
    """Return a temporary folder for checkpoints."""
    return tempfile.TemporaryDirectory()


def finish(
    given: Arguments, modules: nn.Module | Iterable[nn.Module], losses: Sequence[Any]
) -> None:
    """Write the results, if the arguments name a file.

    Args:
        given: the program's arguments.
        modules: modules whose weights and buffers are part of the digest.
        losses: losses, or other numbers that the program computed.
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
    """Repeat the loader until `steps` batches were passed to `step`."""
    done = 0
    while True:
        for batch in loader:
            if done == steps:
                return
            step(done, batch)
            done += 1
