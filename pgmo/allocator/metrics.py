"""Figures of the session on a device, for loggers, dashboards and log files."""

import json
import math
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgmo.allocator.session.options import Options
from pgmo.allocator.session.session import active_session
from pgmo.errors import FileError, OptionError
from pgmo.files.replacement import replace_file
from pgmo.world import world

if TYPE_CHECKING:
    from os import PathLike

    from pgmo.allocator.session.session import Session

_PROMETHEUS = {
    "peak_live": ("pgmo_peak_live_bytes", "Peak of the live bytes so far."),
    "reserved": ("pgmo_reserved_bytes", "Bytes that PyTorch and pgmo hold reserved on the device."),
    "stuck": ("pgmo_stuck_bytes", "Reserved bytes beyond the peak of the live bytes."),
    "retries": (
        "pgmo_retries_total",
        "Requests that were tried again after PyTorch emptied its cache.",
    ),
    "from_plan": (
        "pgmo_from_plan_ratio",
        "Share of the last iteration's requested bytes that slots served.",
    ),
    "growth": (
        "pgmo_growth_bytes_per_iteration",
        "Bytes by which the live bytes grow per iteration.",
    ),
}
"""Prometheus name and help text of each figure. Figures with names in `_total` are counters."""


def metrics(device: object = None, framework: str = "torch") -> dict[str, float]:
    """Return the figures of the session on a device, for a logger.

    Args:
        device: as for `pgmo.optimize`.
        framework: as for `pgmo.optimize`.

    Returns:
        Figures by name; empty if no session is open on the device. Sizes are in bytes.

        - `pgmo/peak_live`: peak of the live bytes so far
        - `pgmo/reserved`: bytes that PyTorch and pgmo hold reserved on the device now; on the CPU
          and under CuPy, the bytes of this session's arenas and other live blocks
        - `pgmo/stuck`: reserved bytes beyond the peak of the live bytes; 0 before the end of the
          first iteration
        - `pgmo/retries`: requests that were tried again after PyTorch emptied its cache; 0 on the
          CPU and under CuPy
        - `pgmo/from_plan`: share of the last iteration's bytes that slots served; 0 without bytes
        - `pgmo/growth`: bytes by which the live bytes grow per iteration; 0 without growth

    Raises:
        OptionError: if the device or the framework is not supported.
        AdapterError: if the device does not exist.

    Example:
        >>> metrics("cpu")
        {}
    """
    session = _session_on(device, framework)
    return {} if session is None else session_metrics(session)


def memory_stats(device: object = None, framework: str = "torch") -> dict[str, int]:
    """Return the counters and current memory use of the session on a device.

    Without pages, torch counts an arena as one allocated block, so `torch.cuda.memory_allocated`
    does not show how many of the arena's bytes are in use. `live_slot_bytes` shows this number.

    Args:
        device: as for `pgmo.optimize`.
        framework: as for `pgmo.optimize`.

    Returns:
        Numbers by name, with sizes in bytes; empty if no session is open on the device. Examples:
        `arena_bytes`: bytes of all arenas. `live_slot_bytes`: bytes in use in slots.
        `live_fallback_bytes`: bytes in use outside the plan. `peak_slot_bytes` and
        `peak_fallback_bytes`: the peaks of these two numbers. `requests`, `hits`, and the misses by
        reason are counted since the session began.

    Raises:
        OptionError: if the device or the framework is not supported.
        AdapterError: if the device does not exist.

    Example:
        >>> memory_stats("cpu")
        {}
    """
    session = _session_on(device, framework)
    return {} if session is None else session.statistics


def _session_on(device: object, framework: str) -> "Session | None":
    chosen = Options(device=device, framework=framework)
    return active_session(chosen.device, chosen.framework)


def session_metrics(session: "Session") -> dict[str, float]:
    """Return the figures of an open session, as `metrics` does."""
    if session.framework == "torch" and session.device.startswith("cuda"):
        torch: Any = sys.modules["torch"]
        counts = torch.cuda.memory_stats(session.device)
        peak_live = int(counts.get("allocated_bytes.all.peak", 0))
        reserved = int(counts.get("reserved_bytes.all.current", 0))
        retries = int(counts.get("num_alloc_retries", 0))
    else:
        counters = session.statistics
        peak_live, retries = session.peak_live, 0
        reserved = counters["arena_bytes"] + counters["live_fallback_bytes"]
    last = session.history_end
    growth = session.counted().growth
    return {
        "pgmo/peak_live": peak_live,
        "pgmo/reserved": reserved,
        "pgmo/stuck": 0 if last is None else max(0, reserved - peak_live),
        "pgmo/retries": retries,
        "pgmo/from_plan": last.hit_bytes_rate if last and last.bytes_requested else 0.0,
        "pgmo/growth": 0.0 if growth is None else growth.rate,
    }


def log_metrics(
    path: "str | PathLike[str]",
    step: int,
    *,
    every: int = 1,
    device: object = None,
    framework: str = "torch",
) -> None:
    """Write the figures of the session on a device to a file, if `step` is a multiple of `every`.

    Without an open session, nothing is written, and an earlier `.prom` file keeps its values.

    Args:
        path: name of the file. A `.jsonl` file gets another line each time. A `.prom` file is
            replaced each time, for the textfile collector of Prometheus' node exporter. In a
            distributed program, `-RANK` is added to the name.
        step: number of the current step.
        every: number of steps between two writes.
        device: as for `pgmo.optimize`.
        framework: as for `pgmo.optimize`.

    Raises:
        OptionError: if `path` ends in neither `.jsonl` nor `.prom`, `every` is below 1, or the
            device or the framework is not supported.
        AdapterError: if the device does not exist.
        FileError: if the file cannot be written.

    Example:
        >>> log_metrics("pgmo.jsonl", 1, every=10)
    """
    file = Path(path)
    if file.suffix not in (".jsonl", ".prom"):
        raise OptionError(f"{file} must end in .jsonl or .prom: the ending selects the format")
    if every < 1:
        raise OptionError(f"every must be at least 1, not {every}")
    if step % every:
        return
    found = metrics(device, framework)
    if not found:
        return
    own = world()
    if own is not None:
        file = file.with_name(f"{file.stem}-{own.rank}{file.suffix}")
    try:
        if file.suffix == ".prom":
            replace_file(file, prometheus_text(found, own.rank if own else None).encode())
        else:
            line = {"step": step, "time": time.time(), **found}
            with file.open("a", encoding="utf-8") as log:
                log.write(json.dumps(line) + "\n")
    except OSError as error:
        raise FileError(f"{file} could not be written: {error}") from error


def prometheus_text(found: dict[str, float], rank: int | None = None) -> str:
    """Return figures in Prometheus' text format, with the rank as a label if there is one."""
    lines = []
    label = "" if rank is None else f'{{rank="{rank}"}}'
    for key, value in found.items():
        name, text = _PROMETHEUS[key.removeprefix("pgmo/")]
        kind = "counter" if name.endswith("_total") else "gauge"
        shown = int(value) if math.floor(value) == value else value
        lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}", f"{name}{label} {shown}"]
    return "\n".join(lines) + "\n"
