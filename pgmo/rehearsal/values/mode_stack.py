"""Changes of torch's stack of dispatch modes, below the modes of the program.

    inserted   [ user A ]                   ->  [ ours | user A ]
    removed    [ ours | user A | user B ]   ->  [ user A | user B ]

Modes must be left in reverse order, because torch pops the top of the stack. But pgmo inserts and
removes its mode while the program has modes of its own. So pgmo's mode is below all of the
program's modes.
"""

from collections.abc import Callable
from typing import Any

from torch.utils import _python_dispatch as dispatch


def insert(mode: Any) -> None:
    """Insert a mode below all modes of the program on this thread."""
    # Modes with a key are torch's own and always lie below all other modes.
    users = [one for one in stack() if getattr(one, "_mode_key", None) is None]
    _without(len(users), lambda: dispatch._push_mode(mode))


def remove(mode: Any) -> bool:
    """Remove a mode from this thread's stack; return False if the stack does not have it."""
    modes = stack()
    for at, one in enumerate(modes):
        if one is mode:
            _without(len(modes) - at - 1, dispatch._pop_mode)
            return True
    return False  # Inside an operator, torch has removed the modes temporarily.


def stack() -> list[Any]:
    """Return the dispatch modes of this thread, outermost first."""
    return list(dispatch._get_current_dispatch_mode_stack())


def _without(above: int, change: Callable[[], object]) -> None:
    """Change the stack below its topmost `above` modes.

    Entering or leaving a mode as usual also changes process-wide flags of torch. These flags become
    wrong if several threads enter and leave modes alternately. pgmo's mode does not need the flags.
    """
    back = []
    try:
        for _ in range(above):
            back.append(dispatch._pop_mode())
        change()
    finally:
        for mode in reversed(back):
            dispatch._push_mode(mode)
