"""Where there is no CUDA build of torch: the same answer from tensors without storage.

It is marked as an estimate. What is known of it are its histories, so that laws over batches are
learned as from rehearsals; nothing is proved on a card, and no change is made in the script.
"""

import importlib
import os

import numpy as np

from pgmo.cards import Card
from pgmo.errors import RehearsalError
from pgmo.fit.evidence import Evidence, Job
from pgmo.fit.need import Need
from pgmo.profiler.iterations.from_trace import profile_of
from pgmo.rehearsal import Rehearsal
from pgmo.rehearsal.library import find_torch_build


def without_cuda_build(job: Job) -> RehearsalError | None:
    """Why a job cannot be rehearsed for want of a CUDA build of torch; None where it can."""
    try:
        find_torch_build(job.python or os.environ.get("PGMO_REHEARSAL_PYTHON"))
    except RehearsalError as error:
        return error
    return None


def collect_estimate(job: Job, card: Card, value: int | None) -> tuple[Evidence, Need]:
    """Estimates a script at a value of what varies.

    Args:
        job: a script; functions are rehearsed only.
        card: whose kernels are assumed.
        value: of what varies.

    Returns:
        What is known, and the need.

    Raises:
        RehearsalError: when the script fails.
        AdapterError: when this torch cannot run so.
    """
    estimate = importlib.import_module("pgmo.fit.estimate")  # loads torch, where it is used
    found = estimate.estimate_script(
        job.at(value),
        card=card,
        python=job.python,
        environment={**os.environ, **job.environment(value)},
        timeout=job.timeout,
    )
    need: Need = found.need
    answer = Rehearsal(
        exit_code=0,
        fits=need.fits(card.usable, "default"),
        card_peak=need.total("default"),
        reserved_peak=need.reserved["default"],
        allocated_peak=need.allocated_peak,
        context=need.context,
        iterations=found.steps,
        seconds=found.seconds,
        notes=need.notes,
    )
    trace = found.profile.trace
    whole = profile_of(trace, whole=True) if trace is not None else found.profile
    category = found.category if trace is not None else np.zeros(len(whole), np.int8)
    known = {"history": found.steps, "shapes": [], "blocks": [0]}
    steady = found.profile if found.profile.circular else None
    return Evidence(answer, value, "default", None, whole, category, known, steady), need
