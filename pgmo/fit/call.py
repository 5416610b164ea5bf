"""The function `pgmo.fit`: the question of `pgmo fit`, asked from Python."""

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
from pgmo.fit.two_values import LENGTHS, BatchTable, batch_table, has_two_values
from pgmo.rehearsal.library import find_torch_build


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
    """Find out whether a job fits on a card, or which batch fits, without the card.

    The job runs for a few iterations on the stub CUDA runtime, with PyTorch's real allocator, in
    separate processes; kernels compute nothing. See `docs/guides/will_it_fit.md`.

    Args:
        step: a script and its arguments, as one text or a sequence; or a function at the top level
            of a module or file, which makes one optimizer step per call. Another process imports
            its module, which must create model and optimizer, and calls the function with the batch
            if it takes an argument.
        card: a card's name, such as "A100-40GB"; a size, such as "16GiB"; or a card.
        batch: the batch in question. Without it, the largest is searched if an option varies.
        vary: option of the script for the batch, such as "--batch-size {}".
        effective_batch: batch of one optimizer step; the answer splits it into micro-batches that
            fit.
        values: at which the laws are learned; at least two. By default 2 and 4 for a batch, and 64,
            128 and 256 for anything else, which memory may depend on quadratically.
        what_if: whether to examine alternatives, with one rehearsal for each that the script
            allows.
        cards: other cards to examine; True for all known cards.
        samples: number of samples of the whole job, to forecast its duration.
        prove: whether to rehearse the largest batch on the card itself.
        python: interpreter with a CUDA build of torch, if this one has none.
        timeout: seconds for each rehearsal.

    Returns:
        The answer; `answer.sentence` is its summary.

    Raises:
        OptionError: if the arguments contradict each other.
        RehearsalError: if the job cannot be rehearsed; the message gives the reason.

    Example:
        >>> answer = pgmo.fit("train.py", card="16GiB", vary="--batch-size {}")  # doctest: +SKIP
        >>> answer.batch, answer.fits["pgmo"]  # doctest: +SKIP
        (18, True)
    """
    job = _job(step, batch, vary, python, timeout)
    if effective_batch is not None and (batch is not None or not job.varies):
        raise OptionError(
            "effective_batch is split into the largest batches that fit, so the batch must "
            "vary: give vary=, and leave batch= out"
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


def table(
    script: str | os.PathLike[str] | Sequence[str],
    /,
    *,
    vary: str,
    card: str | Card = "RTX 4090",
    lengths: Sequence[int] = LENGTHS,
    python: str | None = None,
    timeout: float = TIMEOUT,
) -> BatchTable:
    """Find the largest batch for each length, or the most requests for each context.

    Args:
        script: as for `pgmo.fit`. Without optimizer steps, it must end by itself.
        vary: the two options of the script, such as "--batch-size {b} --length {l}".
        card: as for `pgmo.fit`.
        lengths: values of the second option that are rehearsed; at least two. The table begins with
            the shortest, and each row has twice the length.
        python: interpreter with a CUDA build of torch, if this one has none.
        timeout: seconds for each rehearsal.

    Returns:
        The table; `rows` has a `length`, the largest `batch` and whether it is `proved` in each.

    Raises:
        OptionError: if `vary` names no two options.
        RehearsalError: if the script cannot be rehearsed; the message gives the reason.

    Example:
        >>> vary = "--requests {n} --length {l}"
        >>> found = pgmo.fit.table("serve.py", vary=vary, card="16GiB")  # doctest: +SKIP
        >>> found.rows[0].batch  # doctest: +SKIP
        1210
    """
    if not has_two_values(vary):
        raise OptionError(f"{vary!r} must name two options, as '-b {{b}} -l {{l}}' does")
    job = _job(script, None, None, find_torch_build(python).python, timeout)
    return batch_table(job, vary, find(card), lengths=lengths)


def _job(
    step: Callable[..., Any] | str | os.PathLike[str] | Sequence[str],
    batch: int | None,
    vary: str | None,
    python: str | None,
    timeout: float,
) -> Job:
    if callable(step):
        if vary is not None:
            raise OptionError(
                "vary= is for scripts, and a function gets the batch as its "
                "argument: leave vary= out"
            )
        takes = bool(inspect.signature(step).parameters)
        if batch is not None and not takes:
            raise OptionError(
                f"{step.__name__}() has no argument for the batch: add one, or leave batch= out"
            )
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
        raise OptionError(
            "batch= of a script needs the option that sets it, as in vary='--batch-size {}'"
        )
    return Job(tuple(words), vary=vary, python=python, timeout=timeout)


def _place_of(step: Callable[..., Any]) -> str:
    """Return the text by which another process finds a function."""
    name = getattr(step, "__qualname__", "")
    home = getattr(step, "__module__", None)
    if not name or "<" in name:
        raise OptionError(
            f"{step!r} cannot be imported by another process: define it at the top level of a "
            "module or file, which must also make the model and the optimizer"
        )
    if home == "__main__":
        path = inspect.getsourcefile(step)
        if path is None or not Path(path).exists():
            raise OptionError(
                f"{name}() is not in a file, as in a notebook: write its cell to one with "
                "%%writefile, and import it from there"
            )
        return f"{path}:{name}"
    return f"{home}:{name}"
