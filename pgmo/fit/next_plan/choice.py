"""Choice of the first attempt of `pgmo run --fit`, by rehearsals.

attempts       unchanged --> 16 --> 8 --> 4 --> 1 --> recomputation
rehearsed      runs out                   predicted by laws, then rehearsed

Recomputation gets the largest tried budget that fits: a larger budget repeats fewer operations.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

from pgmo.cards import Card
from pgmo.errors import PgmoError, RehearsalError
from pgmo.fit.evidence import Job, collect
from pgmo.fit.largest import fits_to_its_end, search, unlimited
from pgmo.fit.laws.law import Law
from pgmo.fit.next_plan.attempts import Attempt, value_of
from pgmo.units import format_bytes

_ASK = """
import dataclasses, json, sys, torch
from pgmo.fit.batch_size import current_card
if not torch.cuda.is_available():
    sys.exit("there is no CUDA device")
print(json.dumps(dataclasses.asdict(current_card())))
"""

_SPARE = 0.01
"""Share of the card that a budget leaves free for unused parts of pages."""

_MOST_BUDGETS = 3
"""Maximum number of budgets to rehearse. If none fits, the lowest possible budget is used."""


def free_card() -> Card:
    """Return the current CUDA device with its free memory.

    A child process queries the device, because a CUDA context in this process would take memory
    during the whole run.

    Raises:
        RehearsalError: if the query fails, as without a CUDA device.
    """
    asked = subprocess.run(
        [sys.executable, "-c", _ASK], capture_output=True, text=True, check=False
    )
    if asked.returncode:
        last = asked.stderr.strip().splitlines()[-1:]
        raise RehearsalError(f"the card could not be read: {''.join(last)}")
    found = json.loads(asked.stdout.splitlines()[-1])
    return Card(**found | {"capability": tuple(found["capability"])})


def first_that_fits(
    attempts: Sequence[Attempt], vary: str | None, card: Card, notify: Callable[[str], None]
) -> int:
    """Return the index of the first attempt that fits; the last, which recomputes, if none does.

    `vary` is the option of the script for the batch; None without such an option.
    """
    notify(f"rehearsing for {card.name}")
    plain = collect(Job(attempts[0].command), card, way="pgmo", work=False)
    if fits_to_its_end(plain, card):
        return 0
    smaller = [at for at, one in enumerate(attempts) if at and one.change is None]
    if smaller and vary is not None:
        job = Job(attempts[smaller[0]].command, vary=vary)
        found = search(job, card, ways=("pgmo",)).of("pgmo")
        for at in smaller:
            if (value_of(attempts[at].command, vary) or 0) <= found.value:
                return at
    return len(attempts) - 1


def with_least_recomputation(
    attempt: Attempt, card: Card, notify: Callable[[str], None]
) -> Attempt:
    """Return a recomputing attempt with the largest tried budget that fits, or `attempt` itself."""
    job = Job(attempt.command)
    plain = collect(job, unlimited(card), way="pgmo", work=False, longer=0.0)
    need = Law([plain]).need(None)
    budget = need.allocated_peak - need.parameters - need.optimizer_state
    over = need.total("pgmo") - card.usable
    for _ in range(_MOST_BUDGETS):
        budget -= max(0, over) + int(_SPARE * card.usable)
        if budget <= 0:
            break
        notify(f"rehearsing recomputation with a budget of {format_bytes(budget)}")
        change = f"recompute:{budget}B"
        try:
            made = collect(job, unlimited(card), way="pgmo", change=change, work=False, longer=0.0)
        except PgmoError:  # such as a budget below the lowest possible peak
            break
        over = made.rehearsal.card_peak - card.usable
        if over <= 0:
            words = attempt.words.replace("(", f"within {format_bytes(budget)} (", 1)
            return replace(attempt, change=change, words=words)
    return attempt
