"""How a running `pgmo run` stands, in a small file for `pgmo top`.

    the user's cache directory/running/PID.json     0600, in a folder that is 0700

It is written at the end of an iteration, once a second at most, in one step. A file tells when its
process began, so that one whose process has gone is known, also when its number was given again.
"""

import json
import os
import platform
import re
import stat
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pgmo.allocator.session.session import Session
    from pgmo.runner.supervision import Supervision

INTERVAL = 1.0
"""Seconds between two writings, at least."""

_VERSION = 1
_LARGEST = 1 << 20
"""Bytes of a file beyond which it is none of ours."""

_PARTIAL = re.compile(r"\.(.*)-(\d{1,10})\.json\.partial")
"""Names of files that are being written, or that a killed process has left: machine, process."""

_FOR_OTHERS = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True)
class DeviceStatus:
    """How the session on one device stands; sizes in bytes, shares as fractions.

    Args:
        device: "cpu", "cuda:0".
        iterations: so far.
        phase: of the session.
        hits: share of the last iteration's requests that came from slots; None if not replayed.
        run_share: share of the bytes of the whole run that came from slots.
        arena: of the plan.
        peak: in slots and outside of them.
        pages: the most that was held; 0 where there are none.
        since: the first iteration that slots served, counted from 1; 0 for none.
        why: why not everything comes from slots, in plain words.
    """

    device: str
    iterations: int
    phase: str
    hits: float | None = None
    run_share: float = 0.0
    arena: int = 0
    peak: int = 0
    pages: int = 0
    since: int = 0
    why: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunStatus:
    """How a program under `pgmo run` stands.

    Args:
        pid: number of the process.
        began: when it began, in the clock ticks that the system counts.
        host: name of the machine.
        program: what is run.
        started: seconds since 1970 when the program was started.
        written: seconds since 1970 when this was written.
        devices: one for each session.

    Example:
        >>> RunStatus(os.getpid(), began_of(os.getpid()), platform.node(), "train.py").is_running
        True
    """

    pid: int
    began: int
    host: str
    program: str
    started: float = 0.0
    written: float = 0.0
    devices: tuple[DeviceStatus, ...] = field(default=())

    @property
    def is_running(self) -> bool:
        """Whether that process is still there, and no other has its number."""
        return began_of(self.pid) == self.began


def began_of(pid: int) -> int:
    """When a process began, in the system's clock ticks; 0 where there is no such process.

    Example:
        >>> began_of(os.getpid()) > 0
        True
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return 0
    # The name, in parentheses, may hold anything; what follows it are numbers.
    values = text.rpartition(")")[2].split()
    return 0 if values[0] in "ZX" else int(values[19])


def status_file(pid: int) -> Path:
    """Where a process of this machine writes, whose home others may have, too."""
    return status_folder() / f"{_machine()}-{pid}.json"


def status_folder() -> Path:
    """Where the files are, whether there are any or not."""
    from pgmo.files.cache_folder import cache_directory

    return cache_directory() / "running"


class StatusFile:
    """The file of this process; a context, at whose end the file goes away.

    What cannot be written is not written: the program matters more.

    Args:
        program: what is run.

    Example:
        >>> with StatusFile("train.py") as file:  # doctest: +SKIP
        ...     file.update(supervision)
    """

    def __init__(self, program: str) -> None:
        self._pid = os.getpid()
        self._began = began_of(self._pid)
        self._program = program
        self._started = time.time()
        self._path: Path | None = None  # until there is something to write
        self._failed = False
        self._next = 0.0

    def __enter__(self) -> "StatusFile":
        return self

    def __exit__(self, *_error: object) -> None:
        if self._path is not None and os.getpid() == self._pid:
            with suppress(OSError):
                self._path.unlink()

    def update(self, supervision: "Supervision") -> None:
        """Writes how things stand, unless that was done just now."""
        now = time.monotonic()
        if self._failed or now < self._next or os.getpid() != self._pid:
            return
        self._next = now + INTERVAL
        status = RunStatus(
            pid=self._pid,
            began=self._began,
            host=platform.node(),
            program=self._program,
            started=self._started,
            written=time.time(),
            devices=tuple(map(device_status, supervision.sessions)),
        )
        self._path = self._path or status_file(self._pid)
        try:
            _write(self._path, json.dumps({"version": _VERSION, **asdict(status)}).encode())
        except OSError:
            self._failed = True  # the disk is full, or the folder somebody else's: not again


def device_status(session: "Session") -> DeviceStatus:
    """How one session stands; takes some tens of microseconds."""
    from pgmo.allocator.session.statistics import MISS_REASONS

    summary, history = session.counted(), session.history_end
    last = history if history is not None and history.phase == "replay" else None
    misses = sorted(summary.misses.items(), key=lambda pair: -pair[1])
    why = [f"{count} {MISS_REASONS[reason]}" for reason, count in misses if count]
    if summary.waits:
        why.insert(0, f"no plan serves: {summary.waits}")
    return DeviceStatus(
        device=session.device,
        iterations=summary.iterations,
        phase=str(session.phase),
        hits=None if last is None else last.hit_rate,
        run_share=summary.run_share,
        arena=summary.arena,
        peak=summary.peak_slot_bytes + summary.peak_fallback_bytes,
        pages=summary.pages,
        since=summary.since,
        why=(*why[:4], *summary.notes[-2:]),
    )


def read_running() -> list[RunStatus]:
    """What runs on this machine and belongs to this user, the newest last.

    Files of processes that have gone are removed.
    """
    found = []
    with suppress(OSError):
        for path in status_folder().iterdir():
            if partial := _PARTIAL.fullmatch(path.name):
                if partial[1] == _machine() and not began_of(int(partial[2])):
                    path.unlink()
                continue
            if path.suffix != ".json":
                continue
            status = _read(path)
            if status is None or status.host != platform.node():
                continue  # another machine's, in a home that both of them have
            if status.is_running:
                found.append(status)
            else:
                with suppress(OSError):
                    path.unlink()
    return sorted(found, key=lambda status: status.started)


def _machine() -> str:
    return re.sub(r"[^\w.]", "_", platform.node())


def _write(path: Path, data: bytes) -> None:
    folder = path.parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    held = folder.lstat()
    if not stat.S_ISDIR(held.st_mode) or held.st_uid != os.geteuid():
        raise PermissionError(f"{folder} is somebody else's")
    if held.st_mode & _FOR_OTHERS:
        folder.chmod(0o700)
    partial = path.with_name(f".{path.name}.partial")
    with suppress(FileNotFoundError):
        partial.unlink()  # of a process of this number that was killed
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    os.replace(partial, path)


def _read(path: Path) -> RunStatus | None:
    """A file of ours; None for anything else."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            held = os.fstat(file.fileno())
            if not stat.S_ISREG(held.st_mode) or held.st_uid != os.geteuid():
                return None
            fields = json.loads(file.read(_LARGEST))
        if fields.pop("version") != _VERSION:
            return None
        return RunStatus(**{**fields, "devices": tuple(map(_device, fields["devices"]))})
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _device(fields: Mapping[str, Any]) -> DeviceStatus:
    return DeviceStatus(**{**fields, "why": tuple(fields["why"])})
