"""Trains a network with the default allocator and with pgmo, and puts the results side by side."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pgmo.demo.agreement import Agreement, agreement
from pgmo.demo.job import Lengths, Outcome, TrainingJob
from pgmo.demo.launch import launch
from pgmo.demo.network import TITLES
from pgmo.errors import FileError, OptionError

FEWEST_ITERATIONS = {"fixed": 10, "varying": 16}
RUNS = 3
"""Training runs per network: default allocator, pgmo, pgmo from the saved plan."""


@dataclass(frozen=True)
class DemoComparison:
    """One network without and with pgmo; seconds and bytes.

    Step times and page faults are medians over the steady iterations (see
    `pgmo.demo.job.STEADY_FROM`), `rss` is peak resident memory of the whole process, `rss_steady`
    that of the steady iterations. "Saved plan" is a second run with pgmo, in a fresh process, from
    the plan that the first one saved. `agreement` compares losses and final weights of all runs.

    Example:
        >>> comparison = compare("lstm", "demo-output")  # doctest: +SKIP
        >>> comparison.identical  # doctest: +SKIP
        True
    """

    network: str
    title: str
    lengths: str
    iterations: int
    seed: int
    threads: int
    torch: str
    blocks: int
    max_load: int
    arena: int
    gap: float
    solver: str
    replans: int
    hit_rate: float | None
    hit_bytes_rate: float | None
    hit_rate_saved_plan: float | None
    hit_bytes_rate_saved_plan: float | None
    step_seconds_default: float
    step_seconds_pgmo: float
    step_seconds_saved_plan: float
    faults_default: float
    faults_pgmo: float
    rss_default: int
    rss_pgmo: int
    rss_pgmo_saved_plan: int
    rss_steady_default: int | None
    rss_steady_pgmo: int | None
    rss_steady_saved_plan: int | None
    agreement: Agreement
    profile: str
    plan: str

    @property
    def identical(self) -> bool:
        """Whether losses and final weights are the same bit for bit in all runs."""
        return self.agreement is Agreement.IDENTICAL

    @property
    def speedup(self) -> float:
        """How many steps with pgmo take the time of one without."""
        return self.step_seconds_default / self.step_seconds_pgmo

    def to_fields(self) -> dict[str, Any]:
        """What `--json` prints: all that the table shows, and more."""
        return {**asdict(self), "identical": self.identical, "speedup": self.speedup}


class ComparisonObserver:
    """Hears how a comparison gets on; this one keeps it to itself."""

    def run(self, number: int, title: str) -> None:
        """Run `number` begins; those from `RUNS` on repeat earlier runs after a difference."""

    def step(self, done: int) -> None:
        """So many steps of the run are done."""

    def message(self, text: str) -> None:
        """The training process has something to say."""


def saved_stem(network: str, folder: str | Path, lengths: Lengths = "fixed") -> Path:
    """Path without suffix of the profile and the plan that a comparison saves.

    Example:
        >>> saved_stem("gpt", "out", "varying").name
        'gpt-varying'
    """
    return Path(folder) / (network if lengths == "fixed" else f"{network}-{lengths}")


def compare(
    network: str,
    folder: str | Path,
    *,
    iterations: int = 20,
    seed: int = 0,
    lengths: Lengths = "fixed",
    threads: int = 0,
    observer: ComparisonObserver | None = None,
) -> DemoComparison:
    """Makes the three training runs, one after the other, each in a process of its own.

    Args:
        network: name of the network, one of `pgmo.demo.network.NAMES`.
        folder: where to save the profile and the plan; made if missing.
        iterations: steps of each run.
        seed: of weights, data, dropout and lengths.
        lengths: "varying" for a different sequence length each iteration.
        threads: threads for torch, the same in all runs; 0 leaves torch's own choice.
        observer: hears about progress.

    Raises:
        OptionError: when there are too few iterations to measure anything.
        FileError: when the folder cannot be made.
        PgmoError: when a run fails.
    """
    if iterations < FEWEST_ITERATIONS[lengths]:
        raise OptionError(
            f"{iterations} iterations are too few to compare anything: a session records some "
            f"first; use at least {FEWEST_ITERATIONS[lengths]} with {lengths} lengths"
        )
    observer = observer or ComparisonObserver()
    stem = saved_stem(network, folder, lengths)
    plan = f"{stem}.pgmoplan"
    default = TrainingJob(network, "default", iterations, seed, lengths, threads=threads)
    jobs = {
        "default allocator": default,
        "pgmo": replace(default, mode="pgmo", save_as=str(stem)),
        "pgmo, saved plan": replace(default, mode="pgmo", plan=plan),
    }
    _make_folder(stem.parent)
    number = 0

    def train(title: str, job: TrainingJob) -> Outcome:
        nonlocal number
        observer.run(number, title)
        number += 1
        return launch(job, on_step=observer.step, on_message=observer.message)

    outcomes = [train(title, job) for title, job in jobs.items()]
    agreed = settle(outcomes, [*jobs.values()], lambda job: train(f"{job.mode}, again", job))
    return combine(default, stem, *outcomes, agreed=agreed)


def settle(
    outcomes: Sequence[Outcome],
    jobs: Sequence[TrainingJob],
    train: Callable[[TrainingJob], Outcome],
) -> Agreement:
    """Compare the bits of all runs, and train again until a difference has an explanation.

    Several threads may add numbers in another order from run to run, in plain PyTorch, too. So on
    a difference the default allocator trains again, and then all jobs train on one thread, where
    the order is fixed. A difference there counts as pgmo's fault, if plain PyTorch has none.

    Args:
        outcomes: of the default allocator and of the runs with pgmo.
        jobs: of the outcomes, in the same order.
        train: trains a job once more.
    """
    plain, *others = (outcome.results for outcome in outcomes)
    on_all = agreement(plain, others, lambda: train(jobs[0]).results)
    if on_all is Agreement.IDENTICAL or outcomes[0].threads == 1:
        return on_all
    single = [replace(job, threads=1, save_as=None) for job in jobs]
    plain, *others = (train(job).results for job in single)
    on_one = agreement(plain, others, lambda: train(single[0]).results)
    if on_one is not Agreement.IDENTICAL:
        return on_one
    return Agreement.THREADS_VARY if on_all is Agreement.DIFFERENT else on_all


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(
            f"{folder}: cannot be made a folder ({error.strerror or error}); choose another place "
            "for profiles and plans"
        ) from error


def combine(
    job: TrainingJob,
    stem: Path,
    default: Outcome,
    replayed: Outcome,
    saved: Outcome,
    *,
    agreed: Agreement,
) -> DemoComparison:
    """Puts three outcomes of one job into one row.

    Args:
        job: the job with the default allocator.
        stem: path of the saved files without suffix.
        default: its outcome.
        replayed: the outcome with pgmo.
        saved: the outcome with pgmo from the saved plan.
        agreed: what `settle` found.

    Raises:
        OptionError: when an outcome that should have a plan has none.
    """
    planned, reloaded = replayed.planned, saved.planned
    if planned is None or reloaded is None:
        raise OptionError("the second and third outcome must come from runs with pgmo")
    seconds = [
        statistics.median(outcome.seconds[job.steady_from :])
        for outcome in (default, replayed, saved)
    ]
    return DemoComparison(
        network=job.network,
        title=TITLES[job.network],
        lengths=job.lengths,
        iterations=job.iterations,
        seed=job.seed,
        threads=default.threads,
        torch=default.torch,
        blocks=planned.blocks,
        max_load=planned.max_load,
        arena=planned.arena,
        gap=planned.gap,
        solver=planned.solver,
        replans=planned.replans,
        hit_rate=planned.hit_rate,
        hit_bytes_rate=planned.hit_bytes_rate,
        hit_rate_saved_plan=reloaded.hit_rate,
        hit_bytes_rate_saved_plan=reloaded.hit_bytes_rate,
        step_seconds_default=seconds[0],
        step_seconds_pgmo=seconds[1],
        step_seconds_saved_plan=seconds[2],
        faults_default=statistics.median(default.faults[job.steady_from :]),
        faults_pgmo=statistics.median(replayed.faults[job.steady_from :]),
        rss_default=default.rss,
        rss_pgmo=replayed.rss,
        rss_pgmo_saved_plan=saved.rss,
        rss_steady_default=default.rss_steady,
        rss_steady_pgmo=replayed.rss_steady,
        rss_steady_saved_plan=saved.rss_steady,
        agreement=agreed,
        profile=f"{stem}.pgmoprof",
        plan=f"{stem}.pgmoplan",
    )
