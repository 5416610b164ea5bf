"""Why a script ended, in a line: the error that began it, not the last line that Python shows.

    ValueError: the file ends early
    The above exception was the direct cause of the following exception:
    DataError: loading failed: the file ends early         ->  DataError: loading failed: the file
    It was asked for at:                                       ends early (from ValueError: the
      File "train.py", line 3                                  file ends early)

The text of an error may end with anything, as that of CUDA's initialization in torch does with
the lines that once asked for it.
"""

_LONGEST = 300
"""Characters of one error's text that are told."""

_DEEPEST = 16
"""Causes that are followed."""


def reason_of(error: BaseException) -> str:
    r"""The error and the one that began it, each by its type and the first line of its text.

    Args:
        error: with its causes.

    Example:
        >>> reason_of(KeyError("data"))
        "KeyError: 'data'"
        >>> late = RuntimeError("no batch:\n  File train.py, line 3")
        >>> late.__cause__ = OSError("disk gone")
        >>> reason_of(late)
        'RuntimeError: no batch: (from OSError: disk gone)'
    """
    first = error
    for _ in range(_DEEPEST):
        before = first.__cause__ or (None if first.__suppress_context__ else first.__context__)
        if before is None:
            break
        first = before
    told = _line(error)
    return told if first is error else f"{told} (from {_line(first)})"


def shortened(text: str, most: int) -> str:
    r"""A text's beginning and end, where it is longer than so many characters.

    Example:
        >>> shortened("abcdefghij", 8)
        'abcd\n[...]\nghij'
    """
    half = most // 2
    return text if len(text) <= most else f"{text[:half]}\n[...]\n{text[-half:]}"


def _line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    name = type(error).__name__
    return f"{name}: {lines[0]}"[:_LONGEST] if lines else name
