"""Trains one network once. Run in a process of its own, so that peak memory is its own too.

    python -m pgmo.demo.worker '{"network": "gpt", "mode": "pgmo"}'

Writes one line of JSON per event to standard output: `{"step": 3}` after each step, at last
`{"outcome": {...}}`, or `{"error": text}` for an error that has an explanation.
"""

import contextlib
import dataclasses
import hashlib
import json
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pgmo.demo.job import Outcome, PlanOutcome, TrainingJob
from pgmo.demo.lengths import varying_lengths
from pgmo.demo.memory import page_faults, peak_resident, reset_peak_resident
from pgmo.demo.network import Network, create
from pgmo.errors import OptionError, PgmoError

if TYPE_CHECKING:
    from torch import nn

    from pgmo.allocator.session.session import Session
    from pgmo.allocator.session.statistics import IterationStatistics


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the job given as JSON in the first argument; returns the exit code."""
    (text,) = sys.argv[1:] if arguments is None else arguments
    try:
        outcome = run(TrainingJob.from_json(text))
    except PgmoError as error:
        _tell(error=str(error))
        return 1
    _tell(outcome=dataclasses.asdict(outcome))
    return 0


def run(job: TrainingJob) -> Outcome:
    """Trains as the job says and measures.

    Raises:
        OptionError: when the network is not known, or has no length to vary.
        PgmoError: whatever the session raises.
    """
    import torch

    # Also for torch's own number: only this call switches off MKL_DYNAMIC, under which MKL may use
    # another number of threads from call to call, and then rounds differently.
    torch.set_num_threads(job.threads or torch.get_num_threads())
    network = create(job.network, job.seed)
    lengths = _lengths(network, job)
    planned = None
    if job.mode == "default":
        trained = _train(network, lengths, job, None)
    else:
        import pgmo

        with pgmo.optimize(plan=job.plan, model_name=job.network) as session:
            trained = _train(network, lengths, job, session)
        planned = _planned(session, lengths)
        if job.save_as is not None:
            _save(session, job.save_as)
    return Outcome(
        **trained,
        digest=digest(network.model),
        threads=torch.get_num_threads(),
        torch=str(torch.__version__),
        planned=planned,
    )


def digest(model: "nn.Module") -> str:
    """SHA-256 (hex) of the names, types, shapes and bytes of all weights and buffers.

    Example:
        >>> digest(create("unet", 0).model) == digest(create("unet", 0).model)
        True
    """
    total = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        total.update(tensor.detach().contiguous().numpy().tobytes())
    return total.hexdigest()


def _lengths(network: Network, job: TrainingJob) -> list[int | None]:
    if job.lengths == "fixed":
        return [None] * job.iterations
    if network.lengths is None:
        raise OptionError(
            f"{job.network!r} has no sequence whose length could vary; use 'gpt' or 'lstm'"
        )
    return [*varying_lengths(*network.lengths, job.iterations, job.seed)]


def _train(
    network: Network, lengths: list[int | None], job: TrainingJob, session: "Session | None"
) -> dict[str, Any]:
    """Returns what an outcome says about each step, and the peaks of memory."""
    seconds: list[float] = []
    losses: list[str] = []
    faults: list[int] = []
    early = 0
    resettable = False
    for index, length in enumerate(lengths):
        if index == job.steady_from:
            early = peak_resident()
            resettable = reset_peak_resident()
        batch = network.batch(index, length)
        before = page_faults()
        begin = time.perf_counter()
        with session.iteration() if session else contextlib.nullcontext():
            loss = network.step(batch)
        seconds.append(time.perf_counter() - begin)
        faults.append(page_faults() - before)
        losses.append(float(loss.item()).hex())
        _tell(step=index + 1)
    late = peak_resident()
    return {
        "seconds": tuple(seconds),
        "losses": tuple(losses),
        "faults": tuple(faults),
        "rss": max(early, late),
        "rss_steady": late if resettable else None,
    }


def _planned(session: "Session", lengths: list[int | None]) -> PlanOutcome:
    plan = session.plan
    if plan is None:
        raise PgmoError(
            f"the session made no plan in {len(lengths)} iterations; train for more of them.\n"
            f"{session.summary()}"
        )
    summary = session.summary()
    longest = max(range(len(lengths)), key=lambda index: lengths[index] or 0)
    hits, hit_bytes = hit_rates(session.history, after=longest if lengths[longest] else -1)
    return PlanOutcome(
        blocks=len(plan),
        max_load=plan.max_load,
        arena=plan.arena,
        gap=plan.gap,
        solver=plan.solver,
        replans=summary.replans,
        phases=tuple(str(iteration.phase) for iteration in session.history),
        hit_rate=hits,
        hit_bytes_rate=hit_bytes,
        summary=str(summary),
    )


def hit_rates(
    history: "Sequence[IterationStatistics]", after: int = -1
) -> tuple[float | None, float | None]:
    """Shares of requests and of bytes served from slots.

    Args:
        history: statistics of each iteration.
        after: iterations up to this number are left out, as is the first that was replayed.

    Returns:
        The share of requests and the share of bytes; None for both if nothing is left to count.
    """
    replayed = [index for index, iteration in enumerate(history) if iteration.phase == "replay"]
    counted = [history[index] for index in replayed[1:] if index > after]
    requests = sum(iteration.requests for iteration in counted)
    size = sum(iteration.bytes_requested for iteration in counted)
    if not requests or not size:
        return None, None
    return (
        sum(iteration.hits for iteration in counted) / requests,
        sum(iteration.bytes_hit for iteration in counted) / size,
    )


def _save(session: "Session", stem: str) -> None:
    for suffix, what in ((".pgmoprof", session.profile), (".pgmoplan", session.plan)):
        if what is not None:
            what.save(stem + suffix)


def _tell(**event: Any) -> None:
    print(json.dumps(event), flush=True)


if __name__ == "__main__":
    sys.exit(main())
