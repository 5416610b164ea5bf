"""Programs in processes of their own that need not import torch first, which takes seconds."""

import multiprocessing
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["torch", "torch._dynamo"])  # optimizers import the latter


@dataclass(frozen=True)
class Ended:
    """What a program wrote to its streams, and its exit code."""

    output: str
    errors: str
    exit_code: int


def run(program: str) -> Ended:
    """Executes a program as `__main__`."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("output", "errors")]
        for file in files:
            file.touch()
        process = _SERVER.Process(target=_execute, args=(program, *files))
        process.start()
        process.join()
        assert process.exitcode is not None
        return Ended(*(file.read_text() for file in files), process.exitcode)


def _execute(program: str, output: Path, errors: Path) -> None:
    for stream, file in ((1, output), (2, errors)):
        os.dup2(os.open(file, os.O_WRONLY), stream)
    exec(compile(program, "program", "exec"), {"__name__": "__main__"})
