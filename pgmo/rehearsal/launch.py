"""Rehearsals in separate processes on the stub runtime."""

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pgmo.cards import Card
from pgmo.errors import OptionError, RehearsalError
from pgmo.rehearsal.answer import Rehearsal, read_answer
from pgmo.rehearsal.environment import (
    WAYS,
    Way,
    of_card,
    of_compilers,
    of_python,
    of_rank,
    of_stub,
    of_way,
)
from pgmo.rehearsal.library import TorchBuild, find_torch_build, stub_library
from pgmo.runner.program import Program


def rehearse(
    command: Sequence[str],
    *,
    card: Card,
    devices: int = 1,
    world: int = 1,
    way: Way = "pgmo",
    plan: Path | None = None,
    iterations: int | None = None,
    longer: float = 0.0,
    timeout: float | None = None,
    environment: Mapping[str, str] | None = None,
    rank: int = 0,
    save: Path | None = None,
    python: str | None = None,
    quiet: bool = True,
) -> Rehearsal:
    """Run a script on a simulated card and return the memory that the script takes.

    The script runs unchanged on PyTorch's CUDA build. Kernels compute nothing, so no GPU is used.

    Args:
        command: a script and its arguments, or "-m", a module and its arguments.
        card: the simulated card.
        devices: number of cards of this kind that the script sees.
        world: number of processes of the job, as under torchrun; collectives are fake.
        way: allocator that serves the requests.
        plan: a saved plan to start with, or a directory of plans; requires the way "pgmo".
        iterations: iterations after which the script is stopped, as `pgmo run` counts them. None
            lets the script run to its end.
        longer: seconds for which the script continues after `iterations`.
        timeout: maximum seconds of the rehearsal; None for no limit.
        environment: environment variables to set in addition to this process's variables.
        rank: rank of the rehearsed process, below `world`.
        save: directory for profile and plan under the script's name, as for `pgmo run --save`;
            requires the way "pgmo".
        python: interpreter with the CUDA build of torch; default `PGMO_REHEARSAL_PYTHON`, else this
            interpreter.
        quiet: whether to hide the script's output.

    Returns:
        The memory that the script took, even if the script failed or ran out of memory.

    Raises:
        OptionError: for invalid options.
        FileError: if there is no such script.
        RehearsalError: if the script cannot be rehearsed, or exceeds the timeout.
        AdapterError: if there is no compiler for the stub.

    Example:
        >>> answer = rehearse(["train.py"], card=pgmo.cards.find("RTX 4090"))  # doctest: +SKIP
        >>> answer.fits, answer.card_peak  # doctest: +SKIP
        (True, 17179869184)
    """
    command = [os.fspath(one) for one in command]
    if not command or command == ["-m"]:
        raise OptionError("there is no script to rehearse: give its path, or -m and a module")
    if way not in WAYS:
        raise OptionError(f"way={way!r} is unknown; choose one of {', '.join(WAYS)}")
    if way != "pgmo" and (plan or save):
        raise OptionError(f"plan and save require way='pgmo', not {way!r}")
    if devices < 1 or not 0 <= rank < world:
        raise OptionError(
            f"world={world} and devices={devices} must be at least 1, and rank={rank} must be from "
            "0 to world - 1"
        )
    module = command[0] == "-m"
    Program(command[1] if module else command[0], module).check()
    torch = find_torch_build(python)
    with stub_library(torch) as stub, tempfile.TemporaryDirectory(prefix="pgmo-rehearsal-") as own:
        folder = Path(own)
        spec: dict[str, Any] = {
            "command": command,
            "way": way,
            "plan": _path(plan),
            "save": _path(save),
            "iterations": iterations,
            "longer": longer,
            "world": world,
            "rank": rank,
            "result": str(folder / "result.json"),
        }
        variables = {
            **os.environ,
            **(environment or {}),
            **of_card(card, devices),
            **of_rank(rank, world, devices),
            **of_stub(stub),
            **of_compilers(folder, stub),
        }
        variables |= of_python(folder, torch.folder, variables) | of_way(way, variables)
        variables.pop("CUDA_VISIBLE_DEVICES", None)  # the variable numbers real devices
        return _run(torch, spec, variables, timeout, quiet=quiet)


def _run(
    torch: TorchBuild,
    spec: Mapping[str, Any],
    environment: Mapping[str, str],
    timeout: float | None,
    *,
    quiet: bool,
) -> Rehearsal:
    """Run the script's process, or raise `RehearsalError`."""
    result = Path(spec["result"])
    where = result.with_suffix(".spec")
    where.write_text(json.dumps(spec))
    command = [torch.python, "-m", "pgmo.rehearsal.child", str(where)]
    began = time.monotonic()
    with tempfile.TemporaryFile() as output:
        out = output if quiet else None
        process = subprocess.Popen(
            command, env=environment, stdout=out, stderr=out, start_new_session=True
        )
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired as error:
            raise RehearsalError(
                f"the script did not end within {timeout:.0f} s on the stub runtime: give it more "
                "time, as in pgmo.fit(command, timeout=...)"
            ) from error
        finally:
            _end(process)
        seconds = time.monotonic() - began
        output.seek(0)
        last = output.read().decode(errors="replace").splitlines()[-12:]
    if not result.exists():
        detail = "\n".join(["", *last]) if last else ""
        how = f"with exit code {code}" if code >= 0 else f"by signal {-code}"
        raise RehearsalError(f"the script's process ended {how} and wrote no result{detail}")
    found = json.loads(result.read_text())
    ending = found.get("exit_code", 0) if code >= 0 else 128 - code
    silent = not any(found.get(one) for one in ("error", "reason", "out_of_memory"))
    if ending and silent and last:  # such as a usage error of argparse
        found["reason"] = f"last line of output: {last[-1].strip()}"
    return read_answer(found, exit_code=ending, seconds=seconds)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Kill the script and the processes that it started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _path(path: Path | None) -> str | None:
    return None if path is None else str(Path(path).absolute())
