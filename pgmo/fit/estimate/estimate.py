"""Estimates a training step or a script without a GPU, and without a CUDA build of torch."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from pgmo.cards import Card, find
from pgmo.errors import OptionError, RehearsalError
from pgmo.fit.estimate.result import Estimate
from pgmo.fit.need import Need
from pgmo.profiler.profile import Profile

STEPS = 3
"""Steps that are run: the optimizer makes its state in the first, and two show what repeats."""

_LINES = 12
"""Lines of a failed script's messages that are shown."""

CARD = "A100-40GB"
"""Whose kernels are assumed where no card is named."""


def estimate(
    step_or_builder: Callable[[], Any],
    *,
    card: str | Card | None = None,
    steps: int = STEPS,
) -> Estimate:
    """Runs a step with tensors that have no storage, and says what it would need of a card.

    Everything on the card has to be made within the call: a function that builds the model, moves
    it to "cuda", and returns the function that makes one step. A function that returns something
    else is a step itself, with all that it needs made in it.

    Args:
        step_or_builder: called without arguments.
        card: whose kernels and multiprocessors are assumed.
        steps: how many to run.

    Returns:
        A profile of one step and what the card has to give.

    Raises:
        AdapterError: when this torch is a CUDA build, which is rehearsed instead, or keeps its
            parts elsewhere.
        RehearsalError: when nothing was put on the card.
        OptionError: when `steps` is not above 0.

    Example:
        >>> import torch
        >>> def build():
        ...     net = torch.nn.Linear(1000, 1000).to("cuda")
        ...     optimizer = torch.optim.SGD(net.parameters(), 0.1)
        ...     def step():
        ...         net(torch.randn(64, 1000, device="cuda")).sum().backward()
        ...         optimizer.step()
        ...         optimizer.zero_grad()
        ...     return step
        >>> found = estimate(build, card="RTX 4090")
        >>> found.need.parameters, found.need.source
        (4004352, 'estimated')
    """
    if steps < 1:
        raise OptionError(f"steps is {steps}; run at least one")
    import torch

    from pgmo.fit.estimate.fake_run import FakeRun
    from pgmo.fit.estimate.result import estimate_of

    chosen = find(card or CARD)
    begin = time.perf_counter()
    with FakeRun(chosen) as run:
        run.ledger.mark()
        made = step_or_builder()
        step = made if callable(made) else step_or_builder
        for _ in range(steps if callable(made) else steps - 1):
            run.ledger.mark()
            step()
        run.ledger.mark()
        seconds = time.perf_counter() - begin
        return estimate_of(
            run.ledger,
            run.trace(),
            chosen,
            assumed=run.assumed,
            name=getattr(step_or_builder, "__name__", "step"),
            version=torch.__version__,
            steps=steps,
            seconds=seconds,
        )


def estimate_script(
    command: Sequence[str],
    *,
    card: str | Card | None = None,
    steps: int = STEPS,
    python: str | None = None,
    environment: Mapping[str, str] | None = None,
    timeout: float = 900.0,
) -> Estimate:
    """Runs a script until its optimizer has made some steps, with tensors that have no storage.

    It runs in a process of its own, in which `torch.cuda` finds the card. Data are read as ever.

    Args:
        command: a script and its arguments; or "-m", a module and its arguments.
        card: whose kernels and multiprocessors are assumed.
        steps: of the optimizer that steps first, after which the script is stopped.
        python: with pgmo and torch; this one when left out.
        environment: of the script; this process's when left out.
        timeout: seconds.

    Raises:
        RehearsalError: when the script fails, takes too long, or puts nothing on the card.
        OptionError: when `steps` is not above 0, or the command is empty.

    Example:
        >>> estimate_script(["train.py", "--batch-size", "8"], card="16GiB")  # doctest: +SKIP
    """
    if steps < 1 or not command:
        raise OptionError(f"steps is {steps} and the command {list(command)}; give both")
    with tempfile.TemporaryDirectory(prefix="pgmo-estimate-") as folder:
        place = Path(folder)
        spec = {"card": asdict(find(card or CARD)), "steps": steps, "folder": folder}
        (place / "spec.json").write_text(json.dumps(spec))
        name = " ".join(command[:2] if command[0] == "-m" else command[:1])
        words = [python or sys.executable, "-m", "pgmo.fit.estimate", str(place / "spec.json")]
        try:
            done = subprocess.run(
                [*words, *command],
                stderr=subprocess.PIPE,
                text=True,
                timeout=timeout,
                env=None if environment is None else dict(environment),
            )
        except subprocess.TimeoutExpired as error:
            raise RehearsalError(
                f"{name} made no {steps} steps within {timeout:g} seconds; give a longer timeout, "
                "or fewer data"
            ) from error
        if not (place / "need.json").exists():
            told = place / "reason.txt"
            if not told.exists():
                raise RehearsalError(_own_end(name, done.returncode, done.stderr))
            reason = told.read_text()
            if "no fake impl" in reason:  # as of GRU's cells
                reason = (
                    f"{reason.partition(': attempted')[0]}: an estimate does not know what this "
                    "operator makes; rehearse the script, with a CUDA build of torch (--python)"
                )
            if "DynamicOutputShape" in reason:  # what a fake tensor says of such an operator
                reason += (
                    "; sizes depend on values there, which an estimate does not have: rehearse the "
                    "script, with a CUDA build of torch (--python)"
                )
            raise RehearsalError(
                f"{name} could not be estimated (exit code {done.returncode}): {reason}"
            )
        known = json.loads((place / "need.json").read_text())
        need = Need(**known["need"] | {"notes": tuple(known["need"]["notes"])})
        profile = Profile.load(place / "estimate.pgmoprof")
        category = np.load(place / "category.npy")
        return Estimate(profile, need, known["steps"], known["seconds"], category)


def _own_end(name: str, code: int, said: str) -> str:
    """Say how a script ended itself, with the end of what it wrote to stderr, as argparse does."""
    lines = [line.rstrip() for line in said.splitlines() if line.strip()][-_LINES:]
    if not lines:
        return f"{name} ended with exit code {code}, without a message"
    return "\n".join([f"{name} ended with exit code {code}. It said:", *lines])
