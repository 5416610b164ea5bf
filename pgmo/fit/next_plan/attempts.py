"""Attempts to run a job: unchanged, with smaller micro-batches, then with recomputation.

--batch-size 32                            the unchanged command
--batch-size 16 --accumulate 2             the same samples per step, in parts
...
--batch-size 1 --accumulate 32
--batch-size 1 --accumulate 32, and the model recomputes
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pgmo.errors import OptionError


@dataclass(frozen=True)
class Attempt:
    """Attempt to run a job.

    Attributes:
        command: the script and its arguments.
        change: change of the script from outside, or None; see `pgmo.fit.observer.changes`.
        words: difference from the script, for display; "" for the unchanged script.
    """

    command: tuple[str, ...]
    change: str | None
    words: str


def possible_attempts(
    command: Sequence[str], vary: str | None = None, accumulate: str | None = None
) -> list[Attempt]:
    """Return the attempts in order, all of which make the same optimizer steps.

    Args:
        command: the script and its arguments.
        vary: option of the script for the batch, such as "--batch-size {}"; the command must give
            it.
        accumulate: option of the script for the accumulation steps, such as "--accumulate {}". A
            command without it accumulates 1 step. If None, there are no smaller micro-batches: they
            would change the samples per step.

    Raises:
        OptionError: if the command does not give the batch, or an option has no "{}".

    Example:
        >>> for one in possible_attempts(["train.py", "-b", "4"], "-b {}", "-a {}"):
        ...     print(" ".join(one.command), one.change)
        train.py -b 4 None
        train.py -b 2 -a 2 None
        train.py -b 1 -a 4 None
        train.py -b 1 -a 4 recompute:min
    """
    found = [Attempt(tuple(command), None, "")]
    last = tuple(command)
    if vary is not None and accumulate is not None:
        batch = value_of(command, vary)
        if batch is None:
            raise OptionError(
                f"the command has no {vary.replace('{}', 'N')}, so its batch is unknown: add "
                "that option"
            )
        before = value_of(command, accumulate) or 1
        for micro, parts in _parts(batch):
            last = with_value(with_value(command, vary, micro), accumulate, before * parts)
            words = f"micro-batches of {micro} instead of {batch}, {before * parts} per step"
            found.append(Attempt(last, None, words))
    also = f"{found[-1].words}; " if found[-1].words else ""
    words = f"{also}recomputed activations (pgmo.recompute)"
    found.append(Attempt(last, "recompute:min", words))
    return found


def value_of(command: Sequence[str], option: str) -> int | None:
    """Return the value that a command gives to an option; None if it gives none."""
    at = _place(command, option)
    if at is None:
        return None
    begin, end = _around(option)
    return int(command[at].removeprefix(begin).removesuffix(end))


def with_value(command: Sequence[str], option: str, value: int) -> tuple[str, ...]:
    """Return the command with another value of an option, or with the option appended."""
    words = list(command)
    at = _place(command, option)
    if at is None:
        return (*words, *option.format(value).split())
    words[at] = option.split()[-1].format(value)
    return tuple(words)


def _parts(batch: int) -> Iterator[tuple[int, int]]:
    """Yield size and number of equal micro-batches. Each size is at most half of the previous."""
    micro = batch
    for parts in range(2, batch + 1):
        if batch % parts == 0 and batch // parts <= micro // 2:
            micro = batch // parts
            yield micro, parts


def _place(command: Sequence[str], option: str) -> int | None:
    """Return the index of the last word with the value, or None; `option` must have a "{}"."""
    if "{}" not in option:
        raise OptionError(f"{option!r} has no {{}} for the value, as in '--batch-size {{}}'")
    *before, _ = option.split()
    begin, end = _around(option)
    for at in range(len(command) - 1, -1, -1):
        ahead = list(command[max(0, at - len(before)) : at])
        word = command[at]
        value = word.removeprefix(begin).removesuffix(end)
        if ahead == before and word == f"{begin}{value}{end}" and value.isdigit():
            return at
    return None


def _around(option: str) -> tuple[str, str]:
    """Return the text before and after "{}" in the last word of an option."""
    begin, _, end = option.split()[-1].partition("{}")
    return begin, end
