"""The functions `pgmo.fit` and `pgmo.fit.table`: the command `pgmo fit` for Python."""

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
    """Predict whether a job fits on a card, or the largest batch that fits, without the card.

    The job runs for a few iterations in separate processes, with PyTorch's CUDA build on a stub of
    the CUDA runtime. Kernels compute nothing. See `docs/guides/will_it_fit.md`.

    Args:
        step: a script and its arguments, as one text or a sequence; or a function at the top level
            of a module or file, which makes one optimizer step per call. Another process imports
            the module, which must create model and optimizer. The process calls the function, with
            the batch if the function has a parameter.
        card: a card's name, such as "A100-40GB"; a size, such as "16GiB"; or a `Card`.
        batch: the batch to examine; None to search for the largest, or if the batch cannot vary.
        vary: option of the script for the batch, such as "--batch-size {}".
        effective_batch: batch of one optimizer step; the answer splits it into micro-batches that
            fit.
        values: batches to rehearse, from which larger ones are predicted; at least two. By default
            2 and 4, or 64, 128 and 256 if the option is not a batch: memory may grow quadratically.
        what_if: whether to examine other ways to train, some with a rehearsal each.
        cards: other cards to examine; True for all known cards.
        samples: number of samples of the whole job, to predict its duration and growing memory.
        prove: whether to rehearse the largest batch on a simulated card of the same size.
        python: interpreter with a CUDA build of torch, if this interpreter has none.
        timeout: seconds for each rehearsal.

    Returns:
        The answer; `answer.sentence` is its summary.

    Raises:
        OptionError: if the arguments contradict each other, or a card is unknown.
        RehearsalError: if the job cannot be rehearsed; the message gives the reason.
        AdapterError: if there is no compiler for the stub.

    Example:
        >>> answer = pgmo.fit("train.py", card="16GiB", vary="--batch-size {}")  # doctest: +SKIP
        >>> answer.batch, answer.fits["pgmo"]  # doctest: +SKIP
        (18, True)
    """
    job = _job(step, batch, vary, python, timeout)
    if effective_batch is not None and effective_batch < 1:
        raise OptionError(f"effective_batch is {effective_batch}; give a number above 0")
    if effective_batch is not None and (batch is not None or not job.varies):
        raise OptionError(
            "effective_batch is split into micro-batches that fit, so the batch must vary: leave "
            "batch= out, and give vary= (for a function: an argument for the batch)"
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
    """Find the largest batch of a script for each length; for inference, the most requests.

    Args:
        script: as for `pgmo.fit`. A script without optimizer steps must end by itself.
        vary: the two options of the script, such as "--batch-size {b} --length {l}".
        card: as for `pgmo.fit`.
        lengths: values of the second option to rehearse; at least two. The table begins with the
            shortest, and each row has twice the length of the row before.
        python: interpreter with a CUDA build of torch, if this interpreter has none.
        timeout: seconds for each rehearsal.

    Returns:
        The table. Each of its `rows` has a `length`, the largest `batch`, and whether a rehearsal
        `proved` it.

    Raises:
        OptionError: if `vary` does not name two options, or the card is unknown.
        RehearsalError: if the script cannot be rehearsed; the message gives the reason.
        ProfileError: if the requests at different values do not correspond.
        AdapterError: if there is no compiler for the stub.

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
        takes_batch = bool(inspect.signature(step).parameters)
        if batch is not None and not takes_batch:
            raise OptionError(
                f"{step.__name__}() has no argument for the batch: add one, or leave batch= out"
            )
        return Job(
            (_import_name(step),),
            call=True,
            takes_batch=takes_batch,
            python=python,
            timeout=timeout,
        )
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


def _import_name(step: Callable[..., Any]) -> str:
    """Return the name by which another process imports a function, or raise `OptionError`."""
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
                f"{name}() is not in a file, as in a notebook: write its cell to a file with "
                "%%writefile, and import the function from the file"
            )
        return f"{path}:{name}"
    return f"{home}:{name}"
