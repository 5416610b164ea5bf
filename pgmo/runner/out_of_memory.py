"""Files written when a program runs out of memory: snapshot, profiles and explanation.

    pgmo-oom-RANK.pickle      PyTorch's own history, if it was recorded
    pgmo-oom-RANK.pgmoprof    the blocks that pgmo has recorded
    pgmo-oom-RANK.txt         the error, and the holders of the memory

RANK is the rank in a distributed program, else the process ID. With several sessions, the device
is part of each profile's name.
"""

import os
import shlex
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgmo.errors import PgmoError
from pgmo.terminal import print_message
from pgmo.world import rank

if TYPE_CHECKING:
    from pgmo.allocator.session.session import Session
    from pgmo.profiler.profile import Profile
    from pgmo.runner.keepers.watch import WhoKeeps

_MESSAGES = ("out of memory", "can't allocate memory", "_STATUS_ALLOC_FAILED")
"""Texts in the messages of out-of-memory errors that have no type of their own: errors of the CUDA
runtime, of PyTorch's CPU allocator, and of libraries such as cuBLAS and cuDNN."""

_NOTHING = """\
No recording was saved. `pgmo run` records from the beginning of training on. To see earlier
requests, call torch.cuda.memory._record_memory_history() at the beginning of the script: then
PyTorch's history is saved here, too."""

_DEEPEST = 16
"""Maximum length of a chain of errors to check, because errors may form a cycle."""

_CAUSE = "Cause: "
"""Beginning of the line with the cause and its fix, in the explanation."""

_LINES = 8
"""Maximum number of memory holders to name. Smaller holders are left out."""


def is_out_of_memory(error: BaseException | None) -> bool:
    """Return whether an error, or one of its causes, means that memory ran out.

    Example:
        >>> is_out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory"))
        True
        >>> is_out_of_memory(ValueError("out of memory"))
        False
    """
    of_torch = getattr(sys.modules.get("torch"), "OutOfMemoryError", MemoryError)
    for _ in range(_DEEPEST):
        if error is None:
            return False
        if isinstance(error, (MemoryError, of_torch)):
            return True
        if isinstance(error, RuntimeError) and any(text in str(error) for text in _MESSAGES):
            return True
        error = error.__cause__ or error.__context__
    return False


def save_out_of_memory(
    error: BaseException,
    sessions: "Iterable[Session]",
    folder: str | os.PathLike[str] = ".",
    who_keeps: "WhoKeeps | None" = None,
) -> tuple[Path, ...]:
    """Save files about the error. Call this in the `except` clause, before sessions are closed.

    Files that cannot be saved are skipped, so that the program's own error stays visible.

    Args:
        error: the out-of-memory error.
        sessions: the open sessions.
        folder: folder for the files.
        who_keeps: search for variables that keep blocks alive; None without one.

    Returns:
        The files, the explanation last.
    """
    from pgmo.report.kept import with_kept

    own_rank = rank()
    stem = Path(folder) / f"pgmo-oom-{os.getpid() if own_rank is None else own_rank}"
    with suppress(OSError):  # then no file can be written, which is reported below
        stem.parent.mkdir(parents=True, exist_ok=True)
    open_sessions = list(sessions)
    text = [f"{type(error).__name__}: {error}", ""]
    written = _save_history(stem.with_suffix(".pickle"))
    for session in open_sessions:
        summary = session.counted()
        if who_keeps is not None:
            summary = who_keeps.in_summary(summary, session.device)
        growing = () if summary.growth is None else summary.growth.kept
        if summary.growth is not None:
            text += [f"{session.device}: {summary.growth}"]
            text += [*(f"kept by: {one}" for one in growing), ""]
        if summary.kept:
            text += [*(f"alive {one}" for one in summary.kept), ""]
        try:
            profile = _known(session)
            if profile is not None:
                profile = with_kept(profile, growing, summary.kept)
                own = f"{stem.name}-{session.device}".replace(":", "") if open_sessions[1:] else ""
                path = stem.with_name(f"{own or stem.name}.pgmoprof")
                profile.save(path)
                written.append(path)
                text += [*_explained(profile), ""]
        except PgmoError as problem:
            text += [f"The profile of {session.device} could not be saved: {problem}", ""]
        text += [str(session.summary()), ""]
    text += _reserved_memory()
    command = look_at(written)
    text.append(f"To see more: {command}" if command else _NOTHING)
    explanation = stem.with_suffix(".txt")
    try:
        explanation.write_text("\n".join(text) + "\n", encoding="utf-8")
        written.append(explanation)
    except OSError as problem:
        print_message(f"pgmo: {explanation} could not be written: {problem}")
    return tuple(written)


def print_saved_files(files: Iterable[Path]) -> None:
    """Print the cause if known, the files, and a command that shows one; nothing without files."""
    files = list(files)
    if not files:
        return
    print_message("pgmo: memory ran out; details are in these files")
    cause = _saved_cause(files[-1])
    if cause:
        print_message(cause)
    for path in files:
        print_message(f"Wrote {path}")
    print_message(f"Next: {look_at(files) or f'less {shlex.quote(str(files[-1]))}'}")


def _saved_cause(explanation: Path) -> str:
    """Return the line of a saved explanation that contains the cause; "" without one."""
    try:
        lines = explanation.read_text("utf-8").splitlines()
    except (OSError, UnicodeError):
        return ""
    return next((line for line in lines if line.startswith(_CAUSE)), "")


def look_at(files: Iterable[Path]) -> str | None:
    """Return the command that shows one of the saved files; None if no file can be shown."""
    by_suffix = {path.suffix: shlex.quote(str(path)) for path in files}
    shown = by_suffix.get(".pgmoprof") or by_suffix.get(".pickle")
    return f"pgmo report {shown}" if shown else None


def _known(session: "Session") -> "Profile | None":
    """Return the planned iteration, the recording up to the error, an older profile, or None."""
    return session.profile if session.plan is not None else session.recording or session.profile


def _save_history(path: Path) -> list[Path]:
    """Save PyTorch's snapshot if it has a history. Return the saved files, at most one."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return []
    try:
        if not any(torch.cuda.memory._snapshot()["device_traces"]):
            return []
        torch.cuda.memory._dump_snapshot(str(path))
    except Exception:  # private functions, on a device in an error state
        return []
    return [path]


def _reserved_memory() -> list[str]:
    """Return lines on unused reserved memory of the current device; [] without CUDA."""
    from pgmo.report.findings.unused_memory import unused_in_snapshot
    from pgmo.units import format_bytes

    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return []
    try:
        device = int(torch.cuda.current_device())
        free, total = torch.cuda.mem_get_info(device)
        reserved = int(torch.cuda.memory_reserved(device))
        unused = unused_in_snapshot(torch.cuda.memory_snapshot(), device)
    except Exception:  # The device may be in an error state.
        return []
    outside = max(0, total - free - reserved)
    parts = ", ".join(unused.parts()) or "none in pieces of 1 MiB or more"
    return [
        f"cuda:{device}, after the error: of {format_bytes(reserved)} reserved by PyTorch, "
        f"{format_bytes(unused.total)} are not requested by any live block: {parts}. "
        f"{format_bytes(outside)} of the card are used outside of PyTorch's allocator, such as by "
        "the context, by libraries, and by other processes.",
        "",
    ]


def _explained(profile: "Profile") -> list[str]:
    """Return the explanation, or a line about an error in pgmo that prevented it."""
    what = "The iteration that repeats" if profile.circular else "Up to the failing request"
    try:  # Without memory on the host, imports fail, too.
        from pgmo.allocator.session.advice import HOW_TO_NAME
        from pgmo.report.summary import explain

        explanation = explain(profile, top=_LINES, predict=False)
        lines = [f"{what}, as recorded:", *explanation.lines()]
    except Exception as problem:  # An error here must not hide the program's error.
        name = type(problem).__name__
        return [f"The profile could not be explained, because pgmo failed: {name}: {problem}"]
    causes = [one for one in explanation.hints[:1] if one.is_cause]
    names = [] if profile.tags else [HOW_TO_NAME]
    return [*(f"{_CAUSE}{one.title}: {one.text}" for one in causes), *lines, *names]
