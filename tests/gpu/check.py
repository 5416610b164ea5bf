"""Tests and benchmarks that need a GPU, in under nine minutes: `make gpu-check`.

    python3 tests/gpu/check.py --results bench/results/gpu

Builds pgmo in place with the running Python. First come the benchmarks that were never run on a
GPU, in the order of `OWED`. If time remains, the tests of this folder follow, one process per file
at the same time, and the other benchmarks of bench/gpu. Each part has a time limit. Output and
results go to the folder of results. All steps run even if one fails; the exit code is 1 if any
fails. Without a GPU, the check reports that and ends with 0. If only CuPy finds a GPU, the check
runs the steps of CuPy.
"""

import argparse
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS, BENCHES = ROOT / "tests" / "gpu", ROOT / "bench" / "gpu"
sys.path.insert(0, str(ROOT))

ALL_SECONDS = 525
"""Seconds for all steps."""

BUILD_SECONDS = 240
"""Most seconds for the build, which takes 15 s on sixteen cores."""

USUAL_BUILD_SECONDS = 20

OWED = {
    "offload": 100,
    "largest_batch": 150,
    "recompute": 110,
}
"""Seconds of the parts that were never run on a GPU, in this order: offload of a large network, and
largest batches with varying lengths and with recomputation. The first process that imports PyTorch
on a machine takes ten seconds."""

KNOWN = {
    "tests": 120,
    "ranks": 100,
    "real_programs": 120,
    "memory": 100,
    "overhead": 75,
    "sekiyama": 190,
    "cupy_loops": 30,
    "rehearsals": 100,
    "managed_memory": 35,
}
"""Seconds of the other parts, in this order, which begin if enough time remains."""

LEAST_SHARE = 0.6
"""Share of a part's seconds that must remain for the part to begin."""

ARGUMENTS = {
    "recompute": ("--ways", "plain", "pgmo", "checkpoint", "activation_memory_budget"),
    "offload": ("--ways", "pgmo, offload"),
    "sekiyama": ("--sekiyama",),
}
SCRIPTS = {"offload": "recompute", "sekiyama": "largest_batch"}
"""Scripts in bench/gpu of parts with other names."""

SHARE = "{seconds}"  # placeholder in a command for its seconds
GRACE = 6
"""Seconds between the time limit passed to a benchmark and the one at which it is killed."""

NOT_BEGUN = 125
"""Exit code of a step that did not begin for lack of time, which is no failure."""

PACKAGES = (
    "torch",
    "numpy",
    "pybind11",
    "setuptools",
    "pytest",
    "rich",
    "platformdirs",
)
BOTH_WAYS = ("test_sessions", "test_streams", "test_torch_tools", "test_training")
"""Tests that also run over arenas without pages, as on systems without virtual memory."""

CUPYS = ("build", "test_adapters", "test_cupy", "cupy_loops")
"""Steps that need no PyTorch."""

TAIL = 40
"""Lines of a step's output that are shown at most."""


@dataclass(frozen=True)
class Step:
    """A command with its time limit and environment variables.

    Args:
        name: name of the step.
        command: words of the command.
        seconds: most seconds that it may take.
        least: seconds that must remain for it to begin.
        environment: environment variables.
    """

    name: str
    command: Sequence[str]
    seconds: float
    least: float
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """The result of a step."""

    name: str
    seconds: float
    exit_code: int
    message: str

    @property
    def failed(self) -> bool:
        return self.exit_code not in (0, NOT_BEGUN)

    @property
    def state(self) -> str:
        """Outcome in words."""
        return f"FAILED, {self.message}" if self.failed else self.message or "done"


class Running:
    """A step's process, with its output in a file."""

    def __init__(self, step: Step, log: Path) -> None:
        self.step, self.log = step, log
        self._begin = time.monotonic()
        self._end = self._begin + step.seconds
        path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        with log.open("w") as output:
            self._process = subprocess.Popen(
                [part.replace(SHARE, f"{step.seconds - GRACE:.0f}") for part in step.command],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path), **step.environment},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait(self) -> Outcome:
        """Wait until the process ends, or kill it after its time limit."""
        try:
            code = self._process.wait(max(0.1, self._end - time.monotonic()))
            message = "" if code == 0 else f"exit code {code}"
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)  # with the processes that it started
            self._process.wait()
            code, message = 124, "took longer than it may"
        return Outcome(self.step.name, time.monotonic() - self._begin, code, message)


def tests() -> list[Step]:
    """Return a step for each test file, and a second one for those in `BOTH_WAYS`."""
    files = [
        Step(
            path.stem,
            (sys.executable, "-m", "pytest", str(path.relative_to(ROOT)), "-q", "--durations=5"),
            KNOWN["tests"],
            LEAST_SHARE * KNOWN["tests"],
        )
        for path in sorted(TESTS.glob("test_*.py"))
        if path.stem != "test_bench"  # the benchmarks run as parts
    ]
    return files + [
        replace(step, name=f"{step.name}_without_pages", environment={"PGMO_PAGES": "0"})
        for step in files
        if step.name in BOTH_WAYS
    ]


def part(name: str, seconds: float, results: Path) -> list[Step]:
    """Return the steps of a part: the tests, or a script of bench/gpu."""
    if name == "tests":
        return tests()
    script = BENCHES / f"{SCRIPTS.get(name, name)}.py"
    output = ("--output", str(results / f"{name}.json"))
    command = (sys.executable, str(script), "--seconds", SHARE, *ARGUMENTS.get(name, ()), *output)
    return [Step(name, command, seconds, LEAST_SHARE * seconds)]


def plan(results: Path, seconds: float = ALL_SECONDS, only: Sequence[str] = ()) -> list[list[Step]]:
    """Return groups of steps; the steps of a group run at the same time.

    Args:
        results: folder of results.
        seconds: seconds for all steps.
        only: names of the steps to run, which share all of the time; empty: all steps.
    """
    command = (sys.executable, str(TESTS / "build_native.py"))
    groups = [[Step("build", command, BUILD_SECONDS, USUAL_BUILD_SECONDS)]]
    for name, own in (OWED | KNOWN).items():
        steps = [one for one in part(name, own, results) if not only or one.name in only]
        if steps:
            groups.append(steps)
    if not only:
        return groups
    chosen = groups if "build" in only else groups[1:]
    taken = sum(max(step.seconds for step in group) for group in groups[1:])
    more = max(1.0, (seconds - USUAL_BUILD_SECONDS) / max(1, taken))
    return [[replace(step, seconds=more * step.seconds) for step in group] for group in chosen]


def run(groups: list[list[Step]], results: Path, seconds: float = ALL_SECONDS) -> list[Outcome]:
    """Run group after group within `seconds`, and return the outcomes."""
    end = time.monotonic() + seconds
    outcomes: list[Outcome] = []
    os.environ.setdefault("PGMO_BUILD_JOBS", str(len(os.sched_getaffinity(0))))
    for group in groups:
        left = end - time.monotonic()
        if left < min(step.least for step in group):
            message = f"left out: {left:.0f} s were left"
            outcomes += [Outcome(step.name, 0, NOT_BEGUN, message) for step in group]
            continue
        group = [replace(step, seconds=min(step.seconds, left)) for step in group]
        running = [Running(step, results / f"{step.name}.txt") for step in group]
        for one in running:
            outcome = one.wait()
            outcomes.append(outcome)
            lines = one.log.read_text(errors="replace").splitlines()
            shown = lines[-TAIL:] if outcome.failed or len(group) == 1 else lines[-1:]
            print(f"== {outcome.name}: {outcome.state} ({outcome.seconds:.0f} s)", *shown, sep="\n")
            sys.stdout.flush()
    return outcomes


def what_to_carry(missing: Sequence[str]) -> str:
    """Return how to bring missing packages to a machine without a network."""
    names = " ".join(missing)
    return (
        f"Missing here: {names}. On a machine with a network:\n"
        f"    python3 -m pip download --no-deps --dest wheels {names}\n"
        "Pure Python wheels (platformdirs) need no installation:\n"
        "    make gpu-check PYTHONPATH=\"$(echo wheels/*.whl | tr ' ' :)\""
    )


def why_no_gpu(framework: str) -> str:
    """Return why a framework has no GPU, from a child process; "" if it has one.

    The child process keeps this one from holding memory of the device.
    """
    function = {"torch": "why_not", "cupy": "why_not_cupy"}[framework]
    probe = f"from tests.gpu.device import {function} as why; print(why())"
    answer = subprocess.run(
        [sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return answer.stdout.strip() if answer.returncode == 0 else answer.stderr.strip()[-300:]


def main() -> int:
    """Run the check, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--results", type=Path, default=ROOT / "bench" / "results" / "gpu")
    parser.add_argument(
        "--within", type=float, default=ALL_SECONDS, help="seconds for everything (%(default)s)"
    )
    parser.add_argument("--only", action="append", help="a step's name; repeat for more")
    arguments = parser.parse_args()
    reason = why_no_gpu("torch")
    cupy_alone = bool(reason) and not why_no_gpu("cupy")
    if reason and not cupy_alone:
        print(f"gpu-check: {reason}; nothing to do.")
        return 0
    needed = [name for name in PACKAGES if name != "torch" or not cupy_alone]
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        print(f"gpu-check: {what_to_carry(missing)}")
        return 1
    results = arguments.results.resolve()
    results.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    groups = plan(results, arguments.within, arguments.only or ())
    if cupy_alone:
        print(f"gpu-check: {reason}; only what is CuPy's.")
        groups = [[step for step in group if step.name in CUPYS] for group in groups]
        groups = [group for group in groups if group]
    outcomes = run(groups, results, arguments.within)
    summary = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": time.monotonic() - begin,
        "steps": [asdict(outcome) for outcome in outcomes],
    }
    (results / "check.json").write_text(json.dumps(summary, indent=2) + "\n")
    print(f"== in all {summary['seconds']:.0f} s; results in {results}")
    for outcome in outcomes:
        print(f"  {outcome.name:28}{outcome.state}")
    return int(any(outcome.failed for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
