"""Census of the live tensors, each with the place that keeps it alive.

A breadth-first search from the program's variables finds the shortest path to each tensor. Local
variables are searched before variables of modules. Autograd graphs and attributes of optimizers are
searched later, and libraries last. The result holds only text and numbers, so it keeps no tensor
alive.
"""

import gc
import itertools
import sys
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pgmo.runner.keepers.cycles import lost_tensors
from pgmo.runner.keepers.parts import AutogradGraph, Part, parts
from pgmo.runner.keepers.place import Place
from pgmo.runner.keepers.roots import of_functions, of_modules
from pgmo.runner.keepers.tensors import StorageKey, is_tensor, python_tensors, storage_of

_MOST_OBJECTS = 400_000
"""Maximum number of objects that are visited or queued. The search needs about 150 bytes for each
object, and skips further objects."""

_SECONDS = 5.0
"""CPU time in seconds after which a search stops and returns the places found so far."""

_MOST_UNKNOWN = 0.1
"""Maximum share of bytes without a known keeper. Above it, library modules are searched, too."""

_EVERY = 512
"""Number of objects between two checks of the time."""


@dataclass(frozen=True)
class KeptBlock:
    """Storage that is alive.

    Args:
        device: device of the storage, such as "cuda:0".
        size: bytes.
        place: the place that keeps the storage alive.
        by_graph: whether only an autograd graph keeps it alive, and no tensor of the program.
        address: address of the storage on the device.
    """

    device: str
    size: int
    place: Place
    by_graph: bool = False
    address: int = 0


@dataclass(frozen=True)
class Census:
    """Result of a census.

    Args:
        blocks: the storages whose keepers were found.
        unknown: bytes of tensors without a known keeper, by device.
    """

    blocks: tuple[KeptBlock, ...] = ()
    unknown: dict[str, int] = field(default_factory=dict)


def take_census(error: BaseException | None = None) -> Census:
    """Return a census of the live tensors, from a search of limited time.

    Args:
        error: the error that ended the program, whose traceback keeps variables alive; or None.
    """
    if "torch" not in sys.modules:
        return Census()
    collects = gc.isenabled()
    gc.disable()  # A collection during the search would free cycles.
    search = _Search(time.thread_time() + _SECONDS)
    try:
        return search.run(error)
    finally:
        search.release()
        if collects:
            gc.enable()


class _Search:
    """State of one search. `release` drops the references that the search holds."""

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline
        self._visited: dict[int, object] = {}  # by id; holding the objects keeps ids unique
        self._nodes: dict[int, Any] = {}
        self._later: list[Part] = []
        self._found: dict[StorageKey, KeptBlock] = {}
        self._wanted: dict[StorageKey, int] = {}
        self.stopped = False

    def run(self, error: BaseException | None) -> Census:
        for one in python_tensors():
            storage = storage_of(one)
            if storage is not None:
                self._wanted[storage[0]] = storage[1]
        self._search(of_functions(error, of_libraries=False))
        self._search(of_modules(of_libraries=False))
        self._search_later()
        self._search(of_functions(error, of_libraries=True))
        self._search_later()
        if not self.stopped and self._missing:
            for tensor, place in lost_tensors(self._found, self._deadline):
                self._note(tensor, place)
        if self._missing > _MOST_UNKNOWN * sum(self._wanted.values()):
            self._search(of_modules(of_libraries=True))
            self._search_later()
        unknown: dict[str, int] = {}
        for key, size in self._wanted.items():
            if key not in self._found:
                unknown[key[0]] = unknown.get(key[0], 0) + size
        return Census(tuple(self._found.values()), unknown)

    def release(self) -> None:
        """Drop all references to the program's objects. A cycle may keep the search alive."""
        self._visited.clear()
        self._nodes.clear()
        self._later.clear()

    @property
    def _missing(self) -> int:
        """Bytes of tensors whose keepers are unknown."""
        return sum(size for key, size in self._wanted.items() if key not in self._found)

    def _search_later(self) -> None:
        while self._later and not self.stopped:
            later, self._later = self._later, []
            self._search(one._replace(later=False) for one in later)

    def _search(self, roots: Iterable[Part]) -> None:
        left: deque[Part] = deque(roots)
        count = 0
        while left and not self.stopped:
            value, place, later = left.popleft()
            if later:
                self._later.append(Part(value, place, later))
                continue
            if type(value) is AutogradGraph:
                for part in value.parts(place, self._nodes, self._deadline):
                    if part.place is place:
                        self._note(part.value, place, by_graph=True)
                    else:
                        left.append(part)
                self.stopped = time.thread_time() > self._deadline
                continue
            if id(value) in self._visited:
                continue
            self._visited[id(value)] = value
            if is_tensor(value):
                self._note(value, place)
            room = max(0, _MOST_OBJECTS - len(self._visited) - len(left))
            left.extend(itertools.islice(parts(value, place), room))
            count += 1
            is_late = count % _EVERY == 0 and time.thread_time() > self._deadline
            self.stopped = is_late or len(self._visited) > _MOST_OBJECTS

    def _note(self, tensor: object, place: Place, *, by_graph: bool = False) -> None:
        storage = storage_of(tensor)
        if storage is not None and storage[0] not in self._found:
            (device, address), size = storage
            self._found[storage[0]] = KeptBlock(device, size, place, by_graph, address)
