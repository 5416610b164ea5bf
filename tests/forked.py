"""Programs in processes that fork after torch was imported, which takes seconds."""

import atexit
import multiprocessing
import os
import runpy
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["torch", "torch._dynamo"])  # optimizers import the latter


@dataclass(frozen=True)
class Ended:
    """Output, error output and exit code of a program."""

    output: str
    errors: str
    exit_code: int


def run(program: str, **environment: str) -> Ended:
    """Execute the source of a program as `__main__`.

    Environment variables that torch reads during its import have no effect.
    """
    return _ended(_execute, program, environment)


def run_command(folder: Path, *command: str, environment: Mapping[str, str]) -> Ended:
    """Run `python COMMAND` in a folder: a script, or `-m` and a module, with arguments."""
    return _ended(_run_command, folder, command, dict(environment))


def _ended(work: Callable[..., None], *arguments: object) -> Ended:
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("output", "errors")]
        for file in files:
            file.touch()
        process = _SERVER.Process(target=_redirected, args=(files, work, *arguments))
        process.start()
        process.join()
        assert process.exitcode is not None
        return Ended(*(file.read_text() for file in files), process.exitcode)


def _redirected(files: list[Path], work: Callable[..., None], *arguments: object) -> None:
    for stream, file in enumerate(files, 1):
        os.dup2(os.open(file, os.O_WRONLY), stream)
    try:
        work(*arguments)
    except Exception as error:
        sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(1)
    finally:
        atexit._run_exitfuncs()  # a forked process calls neither these nor sys.excepthook


def _execute(program: str, environment: dict[str, str]) -> None:
    os.environ.update(environment)
    sys.path[:0] = environment.get("PYTHONPATH", "").split(os.pathsep)
    exec(compile(program, "program", "exec"), {"__name__": "__main__"})


def _run_command(folder: Path, command: tuple[str, ...], environment: dict[str, str]) -> None:
    import torch

    os.environ.clear()
    os.environ.update(environment)
    torch.set_num_threads(1)  # torch was imported before the environment was set
    os.chdir(folder)
    is_module = command[0] == "-m"
    target, *arguments = command[is_module:]
    sys.argv = [target, *arguments]
    further = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:0] = [str(folder if is_module else Path(target).parent), *further]
    if is_module:
        runpy.run_module(target, run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(target, run_name="__main__")
