"""`pgmo run --fit`: a run that has run out of memory is begun again with the next plan."""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from pgmo.cli.exit_codes import shell_code
from pgmo.fit.next_plan.ladder import Rung, rungs
from pgmo.terminal import say

_VALUES = ("save", "plan", "device", "step_on", "memory", "budget", "limit")
_SWITCHES = ("profile_only", "quiet", "live", "force")
"""Options that each of the runs gets."""


def run_until_it_fits(arguments: argparse.Namespace) -> int:
    """Runs a job by one plan after the other, until one does not run out of memory.

    Each is a process of its own, from the beginning of the script: what has been trained so far is
    gone, unless the script saves and finds its checkpoints.

    Args:
        arguments: of `pgmo run`.

    Returns:
        The exit code of the last run.
    """
    command = [arguments.script, *arguments.arguments]
    if arguments.is_module:
        command.insert(0, "-m")
    given = _words(arguments)
    plans = rungs(command, arguments.vary, arguments.accumulate)
    code = 1
    for at, rung in enumerate(plans):
        if rung.words:
            say(f"pgmo run: memory ran out; again with {rung.words}")
        # What an earlier one has saved is not in the way of the next.
        code, ran_out = _run(rung, given if at == 0 else [*given, "--force"])
        if not ran_out:
            return code
        if at == 0 and arguments.vary is not None and arguments.accumulate is None:
            say(
                "pgmo run: the script's option for accumulation is not known (--accumulate), so "
                "its batch stays"
            )
    say("pgmo run: memory ran out with every plan; `pgmo fit --what-if` says what else would help")
    return code


def _run(rung: Rung, given: list[str]) -> tuple[int, bool]:
    """The exit code, and whether memory ran out."""
    with tempfile.TemporaryDirectory(prefix="pgmo-run-") as folder:
        counted = Path(folder) / "counted.json"
        command = [sys.executable, "-m", "pgmo", "run", "--json", str(counted), *given]
        script = list(rung.command)
        if rung.change is not None:
            script = ["-m", "pgmo.fit.next_plan.changed", rung.change, *script]
        done = subprocess.run([*command, *script], check=False)
        found = json.loads(counted.read_text()) if counted.exists() else {}
    return shell_code(done.returncode), bool(found.get("out_of_memory"))


def _words(arguments: argparse.Namespace) -> list[str]:
    """The options of `pgmo run` as words of a command line."""
    words = []
    for name in _VALUES:
        value = getattr(arguments, name)
        if value is not None:
            words += [f"--{name.replace('_', '-')}", str(value)]
    words += [f"--{name.replace('_', '-')}" for name in _SWITCHES if getattr(arguments, name)]
    return words
