"""Which rank of which world has which plan: one small file beside the plans of a program.

    plans/gpt.ranks.json             who had what
    plans/gpt-3fa2b1c0.pgmoplan      one for each set of plans that is different, not for each rank
    plans/gpt-3fa2b1c0.pgmoprof      profiles, as a program of one process has them

A rank writes an entry only if others' entries would lead it to another plan. So a data-parallel job
of a thousand ranks has one entry, and a pipeline two or three a stage.
"""

import fcntl
import json
import math
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from pgmo.allocator.ranks.world import World
from pgmo.errors import FileError
from pgmo.files.replacement import replace_file

SUFFIX = ".ranks.json"

_FORMAT = "pgmo ranks 1"
_FILE = re.compile(r"[^/\0]+-[0-9a-f]{8}")
_MOST_BYTES, _MOST_ENTRIES = 1 << 24, 1 << 16  # of a file that is read
_LOCK_PATIENCE, _LOOK = 10.0, 0.01  # seconds


@dataclass(frozen=True)
class Entry:
    """A rank's plan, and what it was made for.

    Args:
        file: stem of the plan's file.
        world: number of ranks.
        rank: the one that wrote this.
        device: type of the device.
        framework: its name and version.
        pgmo: version.
        command: digest of the program's command line, which tells a job that starts again from one
            that is divided otherwise.
        requests: of the main plan's iteration.
        structure: digest of the lifetimes, streams and number of the requests.
        shapes: digest of their sizes as well.
        arena: bytes of the main plan.

    Example:
        >>> Entry("gpt-3fa2b1c0", 4, 1, "cpu", "torch 2.11", "0.1", "ff", 9, "5c", "a0", 64).world
        4
    """

    file: str
    world: int
    rank: int
    device: str
    framework: str
    pgmo: str
    command: str
    requests: int
    structure: str
    shapes: str
    arena: int

    @property
    def key(self) -> tuple[object, ...]:
        """One rank has one entry with each version and command line."""
        return self.world, self.rank, self.device, self.framework, self.pgmo, self.command

    def distance(
        self, world: World, device: str, framework: str, pgmo: str, command: str
    ) -> tuple[float, ...]:
        """How far it is from another process: what differs in kind first, the rank last.

        Ranks are compared by their place between the first and the last, which in a pipeline of
        another length is the like stage.

        Example:
            >>> one = Entry("a", 4, 1, "cuda", "torch 2.11.0", "0.1.0", "ff", 9, "5c", "a0", 64)
            >>> one.distance(World(1, 8), "cuda", "torch 2.11.0", "0.1.0", "ff")[:5]
            (0, 0, 0, 0, 1.0)
        """
        place = World(self.rank, self.world).place
        return (
            int(self.device != device),
            int(self.framework != framework),
            int(self.pgmo != pgmo),
            int(self.command != command),
            abs(math.log2(self.world / world.size)),
            abs(place - world.place),
        )


def read(path: Path) -> list[Entry]:
    """The entries of an index; none where it is not there, or cannot be understood.

    Example:
        >>> read(Path("/no/such/gpt.ranks.json"))
        []
    """
    try:
        with open(path, "rb") as file:
            told = json.loads(file.read(_MOST_BYTES))
        if told["format"] != _FORMAT or len(told["entries"]) > _MOST_ENTRIES:
            return []
        entries = [_entry(one) for one in told["entries"]]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []
    return [one for one in entries if one is not None]


def write(path: Path, entries: list[Entry]) -> None:
    """Replaces an index in one step.

    Raises:
        FileError: when it cannot be written.
    """
    told = {"format": _FORMAT, "entries": [asdict(one) for one in entries]}
    replace_file(path, (json.dumps(told, indent=1) + "\n").encode())


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds an index against other processes, which change it, too. Readers need no lock.

    The system takes the lock from a process that ends. Where a file system has no locks, an entry
    may be lost, and its rank finds a neighbour's plan.

    Raises:
        FileError: when somebody holds it for ten seconds.
    """
    lock = path.with_name(f".{path.name}.lock")
    end = time.monotonic() + _LOCK_PATIENCE
    try:
        descriptor = os.open(lock, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise FileError(f"{lock}: cannot be made ({error.strerror})") from error
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > end:
                    raise FileError(
                        f"{lock}: another process has held it for {_LOCK_PATIENCE:g} s"
                    ) from None
                time.sleep(_LOOK)
                continue
            except OSError:
                pass  # no locks here
            break
        yield
    finally:
        with suppress(OSError):
            os.close(descriptor)


def _entry(told: Any) -> Entry | None:
    """An entry whose values are of their types, and whose file lies in the folder."""
    values = {field.name: told[field.name] for field in fields(Entry)}
    texts = ("file", "device", "framework", "pgmo", "command", "structure", "shapes")
    numbers = ("world", "rank", "requests", "arena")
    good = all(isinstance(values[name], str) for name in texts) and all(
        isinstance(values[name], int) and 0 <= values[name] < 1 << 62 for name in numbers
    )
    if not good or not _FILE.fullmatch(values["file"]):
        return None
    return Entry(**values) if values["rank"] < values["world"] else None
