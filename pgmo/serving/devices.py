"""Whose memory a call takes: the devices on which the called object's parameters are."""

import sys
from collections.abc import Iterator
from typing import Any

SERVED = ("cpu", "cuda")
"""Types of devices that there are adapters for."""


class Devices:
    """The devices of one object, as they are at each call: models move.

    Looking at each parameter takes longer than small models take, so all are looked at only when
    the first one has moved.

    Args:
        given: the one that the program has named; None for those of the parameters.

    Example:
        >>> Devices("cuda:1").of(object())
        ('cuda:1',)
    """

    def __init__(self, given: object = None) -> None:
        self._given = None if given is None else (str(given),)
        self._first: object = None
        self._found: tuple[str, ...] = ()

    def of(self, called: object) -> tuple[str, ...]:
        """The names of those that can be served, each once; of a module, or of what has modules."""
        if self._given is not None:
            return self._given
        first = next(_places(called), None)
        if not self._found or first != self._first:
            names = dict.fromkeys(str(place) for place in _places(called))
            served = [name for name in names if name.partition(":")[0] in SERVED]
            self._first, self._found = first, tuple(served) or (_current(),)
        return self._found


def _places(called: object) -> Iterator[Any]:
    """Of each parameter and buffer; of the modules that an object has, if it is none itself."""
    nn: Any = getattr(sys.modules.get("torch"), "nn", None)
    if nn is None:
        return
    if isinstance(called, nn.Module):
        modules = [called]
    else:
        modules = [one for one in _parts(called) if isinstance(one, nn.Module)]
    for module in modules:
        for tensor in module.parameters():
            yield tensor.device
        for tensor in module.buffers():
            yield tensor.device


def _parts(called: object) -> list[object]:
    return list(getattr(called, "__dict__", {}).values())


def _current() -> str:
    """Where there are no parameters: the current CUDA device, if the program uses any."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return f"cuda:{torch.cuda.current_device()}"
    return "cpu"
