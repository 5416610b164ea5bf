"""Batch size of the running script, found by rehearsals of the script.

python train.py              planned() --> rehearse train.py at 2, 4, ... --> 18
`-- in each rehearsal        planned() --> the batch of this rehearsal
"""

import os
import sys
from dataclasses import replace
from pathlib import Path

from pgmo.cards import Card, find
from pgmo.errors import OptionError, RehearsalError
from pgmo.fit.ask import Question, ask
from pgmo.fit.evidence import Job
from pgmo.fit.largest import LIMIT, accumulate
from pgmo.rehearsal.environment import SETTINGS, Way

VARIABLE = "PGMO_FIT_BATCH"
"""Environment variable with the batch of a rehearsal. If it is set, `planned` returns it."""


def planned(
    *,
    most: int | None = None,
    effective: int | None = None,
    card: str | Card | None = None,
) -> tuple[int, int]:
    """Return a micro-batch with which the running script fits, and the accumulation steps.

    Args:
        most: upper limit of the batch.
        effective: samples of one optimizer step.
        card: card to plan for; by default the free memory of the current device.

    Returns:
        Micro-batch in samples, and number of accumulation steps. With `effective`, their product is
        `effective`, and the number is the smallest possible. Without `effective`, the result is the
        largest micro-batch that fits, and 1. In a rehearsal: the batch of the rehearsal, and 1.

    Raises:
        RehearsalError: if the script cannot be rehearsed, or nothing fits.
        OptionError: if no script is running, as in a notebook, there is no card, or `effective` is
            below 1.
        AdapterError: if there is no compiler for the stub.

    Example:
        >>> batch, steps = planned(effective=256)  # doctest: +SKIP
        >>> loader = DataLoader(dataset, batch_size=batch)  # doctest: +SKIP
    """
    given = rehearsed_batch()
    if given is not None:
        return given, 1
    chosen = current_card() if card is None else find(card)
    job = Job(running_command(), variable=VARIABLE)
    limit = LIMIT if most is None else most
    answer = ask(job, chosen, Question(ways=(serving_way(),), limit=limit))
    if not answer.batch:
        raise RehearsalError(answer.sentence)
    return accumulate(effective, answer.batch) if effective is not None else (answer.batch, 1)


def rehearsed_batch() -> int | None:
    """Return the batch at which this process is rehearsed; None if it is not rehearsed."""
    given = os.environ.get(VARIABLE)
    return None if given is None else int(given)


def serving_way() -> Way:
    """Return the allocator of this process: pgmo if pages serve it, else PyTorch's as set up."""
    early = sys.modules.get("pgmo.runner.early_pages")
    if early is not None and early.serves():
        return "pgmo"
    settings = "".join(os.environ.get(one, "") for one in SETTINGS)
    return "expandable" if "expandable_segments:True" in settings else "default"


def running_command() -> tuple[str, ...]:
    """Return the script of this process with its arguments, or raise `OptionError`."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name not in ("__main__", "pgmo.__main__"):
        return ("-m", spec.name.removesuffix(".__main__"), *sys.argv[1:])
    path = getattr(main, "__file__", None)
    if path is None or not Path(path).exists():
        raise OptionError(
            "this process runs no script that can be rehearsed: write the code to a file, or "
            "pass a function in a module to pgmo.fit()"
        )
    return (path, *sys.argv[1:])


def current_card() -> Card:
    """Return the current CUDA device as a card, or raise `OptionError` without one."""
    import torch

    if not torch.cuda.is_available():
        raise OptionError("there is no CUDA device to plan for: name a card, as in card='L4'")
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    free, total = torch.cuda.mem_get_info()
    # Memory and context of this process count as usable, because a rehearsal has its own.
    from pgmo.rehearsal.environment import context_bytes

    plain = Card(
        properties.name,
        total,
        total,
        (properties.major, properties.minor),
        properties.multi_processor_count,
    )
    usable = min(total, free + torch.cuda.memory_reserved() + context_bytes(plain))
    return replace(plain, usable=usable)
