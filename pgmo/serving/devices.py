"""Devices whose memory a call uses: the devices of the called object's parameters."""

import sys
from collections.abc import Iterator
from typing import Any

SERVED = ("cpu", "cuda")
"""Device types that have adapters."""


class Devices:
    """Devices of one object, updated at each call because models move; or a given device.

    Checking every parameter would take longer than a small model's call. So all parameters are
    checked only in the first call, and if the first parameter has moved.
    """

    def __init__(self, given: object = None) -> None:
        self._given = None if given is None else (str(given),)
        self._first: object = None
        self._found: tuple[str, ...] = ()

    def of(self, called: object) -> tuple[str, ...]:
        """Return the given device, or the devices of the called object that pgmo can serve.

        If pgmo can serve none of these devices, return the current CUDA device, or the CPU if CUDA
        is not initialized.
        """
        if self._given is not None:
            return self._given
        first = next(_places(called), None)
        if not self._found or first != self._first:
            names = dict.fromkeys(str(place) for place in _places(called))
            served = [name for name in names if name.partition(":")[0] in SERVED]
            self._first, self._found = first, tuple(served) or (_current(),)
        return self._found


def _places(called: object) -> Iterator[Any]:
    """Yield the devices of the parameters and buffers of a module, or of an object's modules."""
    nn: Any = getattr(sys.modules.get("torch"), "nn", None)
    if nn is None:
        return
    if isinstance(called, nn.Module):
        modules = [called]
    else:
        # A copy, because another thread may set an attribute.
        parts = list(getattr(called, "__dict__", {}).values())
        modules = [one for one in parts if isinstance(one, nn.Module)]
    for module in modules:
        for tensor in module.parameters():
            yield tensor.device
        for tensor in module.buffers():
            yield tensor.device


def _current() -> str:
    """Return the current CUDA device, or the CPU if CUDA is not initialized."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return f"cuda:{torch.cuda.current_device()}"
    return "cpu"
