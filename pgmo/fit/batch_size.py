"""The batch of the script that is running now, found by rehearsing that script.

    python train.py                      planned() --> rehearse train.py at 2, 4, ... --> 18
      `-- in each rehearsal              planned() --> the value that is rehearsed

So one script is both: what asks, and what is asked about.
"""

import os
import sys
from pathlib import Path

from pgmo.cards import Card, find
from pgmo.errors import OptionError, RehearsalError
from pgmo.fit.ask import Question, ask
from pgmo.fit.evidence import Job
from pgmo.fit.largest import accumulate

VARIABLE = "PGMO_FIT_BATCH"
"""Of the environment: the batch that is rehearsed. Whoever sets it decides."""


def planned(
    *,
    most: int | None = None,
    effective: int | None = None,
    card: str | Card | None = None,
    values: tuple[int, ...] = (),
) -> tuple[int, int]:
    """The largest micro-batch of the running script that fits, and the steps of accumulation.

    Args:
        most: no larger batch is wanted.
        effective: samples of one optimizer step.
        card: to plan for; the current one by default, as much as is free of it.
        values: where laws are learned; 2 and 4 by default.

    Returns:
        Micro-batch and steps: with `effective` their product is that; else the steps are 1.

    Raises:
        RehearsalError: when the script cannot be rehearsed, or nothing fits.
        OptionError: when it is no script that runs, as in a notebook.

    Example:
        >>> batch, steps = planned(effective=256)  # doctest: +SKIP
        >>> loader = DataLoader(dataset, batch_size=batch)  # doctest: +SKIP
    """
    given = os.environ.get(VARIABLE)
    if given is not None:
        return int(given), 1
    chosen = current_card() if card is None else find(card)
    job = Job(running_command(), variable=VARIABLE)
    answer = ask(job, chosen, Question(values=values))
    if not answer.batch:
        raise RehearsalError(answer.sentence)
    batch = answer.batch if most is None else min(answer.batch, most)
    return accumulate(effective, batch) if effective is not None else (batch, 1)


def running_command() -> tuple[str, ...]:
    """The script of this process and its arguments.

    Raises:
        OptionError: when there is none that could be run again.
    """
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name not in ("__main__", "pgmo.__main__"):
        return ("-m", spec.name.removesuffix(".__main__"), *sys.argv[1:])
    path = getattr(main, "__file__", None)
    if path is None or not Path(path).exists():
        raise OptionError(
            "only a script can be rehearsed, and this is none: write it to a file, or ask "
            "pgmo.fit() about a function in a module"
        )
    return (path, *sys.argv[1:])


def current_card() -> Card:
    """The current CUDA device as a card: as much of it as is free, and this process's own."""
    import torch

    if not torch.cuda.is_available():
        raise OptionError("there is no CUDA device to plan for: name a card, as in card='L4'")
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    free, total = torch.cuda.mem_get_info()
    # The rehearsal has a context of its own, so this process's counts as free.
    from pgmo.rehearsal.environment import context_bytes

    plain = Card(
        properties.name,
        total,
        total,
        (properties.major, properties.minor),
        properties.multi_processor_count,
    )
    usable = min(total, free + torch.cuda.memory_reserved() + context_bytes(plain))
    return Card(plain.name, total, usable, plain.capability, plain.multiprocessors)
