"""Work as a number of executed lines of Python, which is the same on every machine."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def steps(function: Callable[[], object]) -> int:
    """Return the number of lines of Python that a call executes.

    Example:
        >>> steps(lambda: [n for n in range(99)]) > 90
        True
    """
    count = 0

    def watch(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal count
        del frame
        count += event == "line"
        return watch

    before = sys.gettrace()
    sys.settrace(watch)
    try:
        function()
    finally:
        sys.settrace(before)
    return count
