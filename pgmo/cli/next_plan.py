"""Implementation of `pgmo run --fit`, which starts a script so that it fits on the card."""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from pgmo.cli.after_script import command_of
from pgmo.cli.exit_codes import shell_code
from pgmo.fit.next_plan.attempts import Attempt, possible_attempts
from pgmo.terminal import print_message

_VALUES = ("save", "plan", "device", "step_on", "memory", "budget", "limit")
_SWITCHES = ("profile_only", "no_tags", "who_keeps", "quiet", "live", "force")
"""Options of pgmo without a value. Every attempt gets these options and `_VALUES`."""


def run_until_it_fits(arguments: argparse.Namespace) -> int:
    """Run a job so that it does not run out of memory. Return the exit code of the last attempt.

    Rehearsals choose the first attempt. If memory runs out nevertheless, other attempts follow.
    Each attempt is a new process that runs the script from its beginning. So progress is lost,
    unless the script saves and loads checkpoints.
    """
    given = _words(arguments)
    attempts = possible_attempts(command_of(arguments), arguments.vary, arguments.accumulate)
    if arguments.vary is not None and arguments.accumulate is None:
        print_message("pgmo run: without --accumulate the batch stays as it is")
    first = _first(attempts, arguments)
    code = 1
    for at, attempt in enumerate(attempts[first:]):
        if at:
            print_message(f"pgmo run: memory ran out; restarting with {attempt.words}")
        elif attempt.words:
            print_message(
                f"pgmo run: the script does not fit as it is; starting with {attempt.words}"
            )
        # Files of an earlier attempt must not block the next attempt.
        code, ran_out = _run(attempt, [*given, "--force"] if at else given)
        if not ran_out:
            return code
    print_message(
        "pgmo run: memory ran out in every attempt; `pgmo fit --what-if` lists what else would help"
    )
    return code


def _first(attempts: list[Attempt], arguments: argparse.Namespace) -> int:
    """Return the index of the attempt to start with, which rehearsals choose; 0 without rehearsals.

    The last attempt recomputes as much as possible. If no other attempt fits, an attempt with a
    budget that fits is inserted before the last one.
    """
    from pgmo.errors import PgmoError
    from pgmo.fit.next_plan.choice import first_that_fits, free_card, with_least_recomputation

    def notify(text: str) -> None:
        print_message(f"pgmo run: {text}")

    if arguments.device == "cpu" or arguments.memory != "device":
        return 0
    first = 0
    try:
        card = free_card()
        first = first_that_fits(attempts, arguments.vary, card, notify)
        if first == len(attempts) - 1:
            attempts.insert(first, with_least_recomputation(attempts[first], card, notify))
    except PgmoError as error:
        print_message(
            f"pgmo run: no rehearsal shows that the script fits, so memory may run out: {error}"
        )
    return first


def _run(attempt: Attempt, given: list[str]) -> tuple[int, bool]:
    """Run one attempt. Return the exit code, and whether memory ran out."""
    with tempfile.TemporaryDirectory(prefix="pgmo-run-") as folder:
        counted = Path(folder) / "counted.json"
        command = [sys.executable, "-m", "pgmo", "run", "--json", str(counted), *given]
        script = list(attempt.command)
        if attempt.change is not None:
            script = ["-m", "pgmo.fit.next_plan.changed", attempt.change, *script]
        done = subprocess.run([*command, *script], check=False)
        found = json.loads(counted.read_text()) if counted.exists() else {}
    return shell_code(done.returncode), bool(found.get("out_of_memory"))


def _words(arguments: argparse.Namespace) -> list[str]:
    words = []
    for name in _VALUES:
        value = getattr(arguments, name)
        if value is not None:
            words += [f"--{name.replace('_', '-')}", str(value)]
    words += [f"--{name.replace('_', '-')}" for name in _SWITCHES if getattr(arguments, name)]
    return words
