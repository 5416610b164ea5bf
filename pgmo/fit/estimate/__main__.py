"""`python -m pgmo.fit.estimate SPEC SCRIPT ...`: a script on a fake card, for a few steps."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from pgmo.cards import Card
from pgmo.rehearsal.reason import reason_of
from pgmo.runner.program import Ending, Program


class _Enough(BaseException):
    """As many steps as were asked for: passes through handlers of exceptions."""


class _Marks:
    """Begins an iteration with each step of the optimizer that steps first."""

    def __init__(self, run: Any, steps: int) -> None:
        self.run, self.steps, self.left = run, 0, steps
        self._first: int | None = None

    def __call__(self, optimizer: Any, *_: Any) -> None:
        if self._first is None:
            self._first = id(optimizer)
        if id(optimizer) != self._first:
            return
        self.run.ledger.mark()
        self.steps += 1
        if self.steps > self.left:
            raise _Enough


def main(spec_path: str, command: list[str]) -> None:
    """Runs a command, and writes what it needs.

    Args:
        spec_path: of a JSON file: the card, how many steps, and the folder to write into.
        command: a script and its arguments, or "-m", a module and its arguments.
    """
    spec = json.loads(Path(spec_path).read_text())
    card = Card(**spec["card"] | {"capability": tuple(spec["card"]["capability"])})
    os.environ["TORCHDYNAMO_DISABLE"] = "1"  # it would look, and give up
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook

    from pgmo.fit.estimate.fake_run import FakeRun
    from pgmo.fit.estimate.result import estimate_of

    program = Program.of(command)
    begin = time.perf_counter()
    with FakeRun(card) as run:
        marks = _Marks(run, spec["steps"])
        register_optimizer_step_post_hook(marks)
        ending = _run(program)
        if ending.error is not None:
            (Path(spec["folder"]) / "reason.txt").write_text(reason_of(ending.error))
            raise ending.error
        if ending.code:
            sys.exit(ending.code)  # the script has said why
        found = estimate_of(
            run.ledger,
            run.trace(),
            card,
            assumed=run.assumed,
            name=program.name,
            version=torch.__version__,
            steps=min(marks.steps, marks.left),
            seconds=time.perf_counter() - begin,
        )
    folder = Path(spec["folder"])
    found.profile.save(folder / "estimate.pgmoprof")
    np.save(folder / "category.npy", found.category)
    known = {"need": found.need.as_json(), "steps": found.steps, "seconds": found.seconds}
    (folder / "need.json").write_text(json.dumps(known))
    os._exit(0)  # threads of the script may wait for more


def _run(program: Program) -> Ending:
    """Run it, and return how it ended; the end that we made counts as its own."""
    try:
        ending = program.run()
    except _Enough:
        return Ending(0, None)
    return Ending(0, None) if isinstance(ending.error, _Enough) else ending


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
