"""Phases of each contender, and the card's peak in each phase."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from pgmo.rehearsal import control


class Way:
    """Phases of PyTorch's own allocators and of pages alone: only the cache is emptied.

    Attributes:
        peaks: the card's peak in each phase, in bytes, including the transition into the phase.
        host: most bytes kept on the host in any phase.
    """

    def __init__(self) -> None:
        self.peaks: dict[str, int] = {}
        self.host = 0

    @contextmanager
    def phase(self, name: str, asleep: list[Any]) -> Iterator[None]:
        """Run a phase that does not use some objects."""
        control.card_peak(reset=True)
        with self.entered(name, asleep):
            yield
        self.peaks[name] = max(self.peaks.get(name, 0), control.card_peak())

    @contextmanager
    def entered(self, name: str, asleep: list[Any]) -> Iterator[None]:
        torch.cuda.empty_cache()
        yield
        torch.cuda.empty_cache()


class Phases(Way):
    """Phases of pgmo."""

    @contextmanager
    def entered(self, name: str, asleep: list[Any]) -> Iterator[None]:
        import pgmo

        with pgmo.phase(name, asleep=asleep):
            pinned = torch.cuda.host_memory_stats()["allocated_bytes.current"]
            self.host = max(self.host, pinned)
            yield


class Backup(Way):
    """Sleep as in torch_memory_saver, which copies whole segments, including their free blocks.

    This is an emulation: storages become empty, and PyTorch's cache is emptied. `Backup` counts the
    bytes that torch_memory_saver would copy: the segments that hold these storages, without the
    cache.
    """

    def __init__(self) -> None:
        super().__init__()
        self._away: dict[StorageWeakRef, tuple[Any, int, int]] = {}  # storage, bytes, bytes copied

    @contextmanager
    def entered(self, name: str, asleep: list[Any]) -> Iterator[None]:
        """Put objects to sleep, wake those that the phase uses, and end the phase."""
        from pgmo.allocator.sleeping.storages import listed

        kept = self._storages(listed(asleep))
        torch.cuda.empty_cache()
        segments = {}
        for segment in torch.cuda.memory_snapshot():
            for at in kept:
                begin = segment["address"]
                if begin <= kept[at].data_ptr() < begin + segment["total_size"]:
                    segments[begin] = (at, segment["total_size"])
        copied = dict.fromkeys(kept, 0)
        for at, size in segments.values():
            copied[at] += size
        for at, storage in kept.items():
            self._away[at] = storage, storage.nbytes(), copied[at]
            storage.resize_(0)
        torch.cuda.empty_cache()
        wanted = {StorageWeakRef(one.untyped_storage()) for one in _tensors(listed(asleep))}
        for at in self._away.keys() - wanted:
            storage, size, _ = self._away.pop(at)
            storage.resize_(size)
        self.host = max(self.host, sum(copy for *_, copy in self._away.values()))
        yield
        torch.cuda.empty_cache()

    def _storages(self, objects: list[Any]) -> dict[StorageWeakRef, Any]:
        """Return the storages of objects that are awake."""
        found = {}
        for tensor in _tensors(objects):
            storage = tensor.untyped_storage()
            if storage.nbytes():
                found[StorageWeakRef(storage)] = storage
        return found


def _tensors(objects: list[Any]) -> Iterator[torch.Tensor]:
    for one in objects:
        if isinstance(one, torch.optim.Optimizer):
            states = (value for state in one.state.values() for value in state.values())
            yield from (value for value in states if value.is_cuda)
        elif isinstance(one, torch.nn.Module):
            yield from (*one.parameters(), *one.buffers())
        else:
            yield one


def way_of(contender: str) -> Way:
    """Return the phases of a contender."""
    return {"backup": Backup, "pgmo": Phases}.get(contender, Way)()
