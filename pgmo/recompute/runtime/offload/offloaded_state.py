"""Optimizer state that is on the host between steps.

    device     | forward   backward  | fetch  step  send | forward ...
    state      | on the host         | on the device     | on the host

Host tensors replace the tensors in the optimizer's `state`, so `state_dict()` and
`load_state_dict()` work at any time. Copies run on the current stream.
"""

import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from pgmo.recompute.runtime.offload.pinned import PinnedBufferPool

_GRAIN = 512  # Alignment of tensors in host memory, in bytes.

_offloaded: "weakref.WeakKeyDictionary[Optimizer, OffloadedState]" = weakref.WeakKeyDictionary()


class OffloadedState:
    """Hooks that keep an optimizer's state on the host between its steps."""

    def __init__(self, optimizer: Optimizer) -> None:
        self._arena: Tensor | None = None
        self._away: list[tuple[dict[Any, Any], Any, Tensor, torch.device]] = []
        self._handles: list[Any] = [
            optimizer.register_step_pre_hook(self._before),
            optimizer.register_step_post_hook(self._after),
            optimizer.register_state_dict_pre_hook(self._wait),
            optimizer.register_load_state_dict_post_hook(self._replace),
        ]

    @property
    def size(self) -> int:
        """Bytes of the state that is on the host now."""
        return sum(host.nbytes for *_, host, _ in self._away)

    def send(self, optimizer: Optimizer) -> None:
        """Copy the state to the host and free its memory on the device.

        Tensors without dimensions, tensor subclasses, and tensors on another device than their
        parameter stay where they are. Raises BudgetError if host memory runs out.
        """
        if self._away:
            return
        found = [
            (state, key, one)
            for parameter, state in optimizer.state.items()
            for key, one in state.items()
            if type(one) is Tensor and one.dim() and one.device == parameter.device
        ]
        if not found:
            return
        devices = {one.device for *_, one in found}
        total = sum(_rounded(one.nbytes) for *_, one in found)
        if self._arena is None or len(self._arena) != total:
            pinned = any(one.type == "cuda" for one in devices)
            pool = PinnedBufferPool(total, pinned, lambda: _finish(devices))
            self._arena = pool.lend()
        place = 0
        for state, key, one in found:
            stride = torch.empty_like(one, device="meta").stride()  # Without gaps.
            part = self._arena[place : place + one.nbytes].view(one.dtype)
            host = part.as_strided(one.shape, stride)
            host.copy_(one, non_blocking=True)
            # The entry precedes the assignment, because Ctrl-C may come between the two lines.
            self._away.append((state, key, host, one.device))
            state[key] = host  # The tensor's memory is freed in the order of the stream.
            place += _rounded(one.nbytes)

    def fetch(self) -> None:
        """Copy the state on the host back to the device.

        Raises:
            torch.OutOfMemoryError: if the device has too little memory. State that was not copied
                stays on the host.
        """
        while self._away:
            state, key, host, device = self._away[-1]
            if state.get(key) is host:  # False if a checkpoint has replaced the state.
                there = torch.empty_like(host, device=device)
                state[key] = there.copy_(host, non_blocking=True)
            self._away.pop()

    def end(self) -> None:
        """Copy the state back, and remove the hooks."""
        self.fetch()
        for handle in self._handles:
            handle.remove()

    def _before(self, *arguments: Any) -> None:
        del arguments
        self.fetch()

    def _after(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        del args, kwargs
        self.send(optimizer)

    def _wait(self, _optimizer: Optimizer) -> None:
        """Wait for the copies to the host before `state_dict()` reads them."""
        _finish({device for *_, device in self._away})

    def _replace(self, optimizer: Optimizer) -> None:
        """Send the state of a loaded checkpoint to the host."""
        self._away.clear()
        self._arena = None  # Loaded tensors may be views of the arena.
        self.send(optimizer)


def keep_state_on_host(optimizer: Optimizer, *, wanted: bool) -> None:
    """Start or stop keeping an optimizer's state on the host between its steps."""
    known = _offloaded.get(optimizer)
    if wanted and known is None:
        _offloaded[optimizer] = known = OffloadedState(optimizer)
        known.send(optimizer)
    elif not wanted and known is not None:
        known.end()
        del _offloaded[optimizer]


def _rounded(size: int) -> int:
    return -(-size // _GRAIN) * _GRAIN


def _finish(devices: Iterable[torch.device]) -> None:
    for device in devices:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
