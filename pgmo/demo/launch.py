"""Starts a worker process for a job, follows its progress, returns its outcome."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pgmo.demo
from pgmo.demo.job import Outcome, TrainingJob
from pgmo.errors import PgmoError

_LAST_LINES = 12

# Threads that spin while they wait for each other turn a busy machine's milliseconds into seconds
# (ten times was seen), and the measurement into one of its other users. An environment that says
# otherwise is respected.
_DEFAULTS = {"OMP_WAIT_POLICY": "PASSIVE"}

# With OMP_DYNAMIC the number of threads follows the load of the machine. oneDNN's LSTM gave another
# loss in each run then, in plain PyTorch (tests/README.md).
_FIXED_THREADS = {"OMP_DYNAMIC": "FALSE"}


class WorkerError(PgmoError):
    """A training process ended without an outcome."""


def launch(
    job: TrainingJob,
    *,
    on_step: Callable[[int], None] | None = None,
    on_message: Callable[[str], None] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Outcome:
    """Runs the job in a fresh Python process and waits for it.

    Args:
        job: what to train.
        on_step: called with the number of steps done, after each.
        on_message: called, from another thread, with each line the worker writes to its stderr.
        environment: variables added to this process's own, such as LD_PRELOAD.

    Raises:
        WorkerError: when the process fails; the message has its last words.

    Example:
        >>> outcome = launch(TrainingJob("lstm", "default", iterations=10))  # doctest: +SKIP
        >>> len(outcome.losses)  # doctest: +SKIP
        10
    """
    command = [sys.executable, "-m", "pgmo.demo.worker", job.to_json()]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=worker_environment(environment or {}),
        text=True,
        errors="replace",
    )
    messages: list[str] = []
    listener = threading.Thread(
        target=_listen, args=(process, messages, on_message or (lambda _: None)), daemon=True
    )
    listener.start()
    outcome, reason = None, ""
    try:
        assert process.stdout is not None  # stdout=PIPE
        for line in process.stdout:
            event = _event(line)
            if "step" in event and on_step:
                on_step(event["step"])
            elif "error" in event:
                reason = event["error"]
            elif "outcome" in event:
                outcome = Outcome.from_fields(event["outcome"])
        process.wait()
    finally:  # an interrupt must not leave a training run behind
        if process.poll() is None:
            process.kill()
            process.wait()
        listener.join(timeout=5)
    if process.returncode == 0 and outcome is not None:
        return outcome
    what = f"training {job.network!r} ({job.mode} allocator) failed"
    if reason:
        raise WorkerError(f"{what}: {reason}")
    last = "\n".join(messages[-_LAST_LINES:])
    raise WorkerError(
        f"{what} with exit status {process.returncode} ({_explain(process.returncode)}). "
        f"Its last words:\n{last or '(none)'}"
    )


def worker_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """This process's variables, such that the worker imports the same pgmo, and `extra`.

    Example:
        >>> worker_environment({"LD_PRELOAD": "libjemalloc.so.2"})["LD_PRELOAD"]
        'libjemalloc.so.2'
    """
    package = str(Path(pgmo.demo.__file__).parent.parent.parent)
    paths = [package, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    path = os.pathsep.join(dict.fromkeys(part for part in paths if part))
    return {**_DEFAULTS, **os.environ, **_FIXED_THREADS, "PYTHONPATH": path, **extra}


def _event(line: str) -> dict[str, Any]:
    try:
        event = json.loads(line)
    except ValueError:
        return {}  # somebody else printed
    return event if isinstance(event, dict) else {}


def _listen(
    process: "subprocess.Popen[str]", messages: list[str], tell: Callable[[str], None]
) -> None:
    assert process.stderr is not None  # stderr=PIPE
    for line in process.stderr:
        messages.append(line.rstrip("\n"))
        tell(messages[-1])


def _explain(status: int) -> str:
    if status == -9:
        return "killed, perhaps for want of memory"
    return f"signal {-status}" if status < 0 else "an exception"
