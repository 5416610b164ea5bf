"""One-line reason why a script ended: the error and its first cause.

    DataError: loading failed: the file ends early (from ValueError: the file ends early)

The last line of Python's traceback is not used, because it may belong to the text of the error:
torch's error of CUDA initialization ends with the lines that first requested CUDA.
"""

_LONGEST = 300
"""Maximum number of characters of one error's text."""

_DEEPEST = 16
"""Maximum number of causes to follow."""


def reason_of(error: BaseException) -> str:
    """Return the error and its first cause, each as its type and the first line of its text."""
    first = error
    for _ in range(_DEEPEST):
        before = first.__cause__ or (None if first.__suppress_context__ else first.__context__)
        if before is None:
            break
        first = before
    ending = _line(error)
    return ending if first is error else f"{ending} (from {_line(first)})"


def shortened(text: str, most: int) -> str:
    """Return the text, or only its beginning and end if it has more than `most` characters."""
    half = most // 2
    return text if len(text) <= most else f"{text[:half]}\n[...]\n{text[-half:]}"


def _line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    name = type(error).__name__
    return f"{name}: {lines[0]}"[:_LONGEST] if lines else name
