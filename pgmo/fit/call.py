"""`pgmo.fit`: the same question from Python, of a script or of a function."""

import inspect
import os
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pgmo.cards import Card, all_cards, find
from pgmo.errors import OptionError
from pgmo.fit.answer import Answer
from pgmo.fit.ask import Question, ask
from pgmo.fit.evidence import TIMEOUT, Job


def fit(
    step: Callable[..., Any] | str | os.PathLike[str] | Sequence[str],
    /,
    *,
    card: str | Card = "RTX 4090",
    batch: int | None = None,
    vary: str | None = None,
    effective_batch: int | None = None,
    values: Sequence[int] = (),
    what_if: bool = False,
    cards: Sequence[str | Card] | bool = False,
    samples: float | None = None,
    prove: bool = True,
    python: str | None = None,
    timeout: float = TIMEOUT,
) -> Answer:
    """Says whether a job fits on a card, or with which batch, without the card.

    The job runs for a few iterations on the stub CUDA runtime, with PyTorch's real allocator, in
    processes of its own; nothing is computed there. See `docs/guides/will_it_fit.md`.

    Args:
        step: a script and its arguments, as one text or a sequence; or a function at the top of a
            module or file, which makes one optimizer step for each call. It is imported in another
            process, where its module makes model and optimizer, and called with the batch if it
            takes an argument.
        card: a card's name, such as "A100-40GB"; a size, such as "16GiB"; or a card.
        batch: to ask about. Without it, and with something that varies, the largest is looked for.
        vary: option of a script that says how large a batch is, such as "--batch-size {}".
        effective_batch: of one optimizer step: the answer splits it into micro-batches that fit.
        values: at which is learned what larger ones ask for; two at least. By default 2 and 4 for
            a batch, and 64, 128 and 256 for anything else, whose squares may count.
        what_if: look at alternatives, with a rehearsal for each that the script allows.
        cards: look at these as well; True for all that are known.
        samples: of the whole job, for the time that it takes.
        prove: rehearse at the largest batch, on the card itself.
        python: with a CUDA build of torch, if this one has none.
        timeout: seconds for each rehearsal.

    Returns:
        The answer; `answer.sentence` says it.

    Raises:
        OptionError: when the question cannot be asked so.
        RehearsalError: when the job cannot be rehearsed, with the reason.

    Example:
        >>> answer = pgmo.fit("train.py", card="16GiB", vary="--batch-size {}")  # doctest: +SKIP
        >>> answer.batch, answer.fits["pgmo"]  # doctest: +SKIP
        (18, True)
    """
    job = _job(step, batch, vary, python, timeout)
    if effective_batch is not None and (batch is not None or not job.varies):
        raise OptionError(
            "effective_batch is split into the largest batches that fit: say what varies, and "
            "give no batch"
        )
    chosen: tuple[Card, ...] | None = None
    if cards is not False:
        chosen = all_cards() if cards is True else tuple(find(one) for one in cards)
    question = Question(
        value=batch,
        values=values,
        effective=effective_batch,
        what_if=what_if,
        cards=chosen,
        samples=samples,
        prove=prove,
    )
    return ask(job, find(card), question)


def _job(
    step: Callable[..., Any] | str | os.PathLike[str] | Sequence[str],
    batch: int | None,
    vary: str | None,
    python: str | None,
    timeout: float,
) -> Job:
    if callable(step):
        if vary is not None:
            raise OptionError("a function is called with its batch: vary is for scripts")
        takes = bool(inspect.signature(step).parameters)
        if batch is not None and not takes:
            raise OptionError(f"{step.__name__}() takes no batch, so it cannot be asked about one")
        return Job((_place_of(step),), call=True, takes=takes, python=python, timeout=timeout)
    words = (
        shlex.split(step)
        if isinstance(step, str)
        else [os.fspath(step)]
        if isinstance(step, os.PathLike)
        else list(step)
    )
    if vary is not None and "{}" not in vary:
        raise OptionError(f"{vary!r} has no {{}} for the value, as in '--batch-size {{}}'")
    if batch is not None and vary is None:
        raise OptionError("a batch of a script needs its option: vary='--batch-size {}'")
    return Job(tuple(words), vary=vary, python=python, timeout=timeout)


def _place_of(step: Callable[..., Any]) -> str:
    """Where another process finds a function.

    Raises:
        OptionError: when it does not.
    """
    name = getattr(step, "__qualname__", "")
    home = getattr(step, "__module__", None)
    if not name or "<" in name:
        raise OptionError(
            f"{step!r} cannot be found by another process: put it at the top of a module or file, "
            "where the model and the optimizer are made, too"
        )
    if home == "__main__":
        path = inspect.getsourcefile(step)
        if path is None or not Path(path).exists():
            raise OptionError(
                f"{name}() is in no file, as in a notebook: write its cell to one with "
                "%%writefile, and import it from there"
            )
        return f"{path}:{name}"
    return f"{home}:{name}"
