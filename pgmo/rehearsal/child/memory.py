"""Memory that the script has taken, and the line at which memory ran out."""

import os
import sys
import traceback
from typing import Any

from pgmo.rehearsal.environment import PACKAGES


def counted() -> dict[str, Any]:
    """Return the highest peaks of all cards, the context and the pinned peak, in bytes."""
    from pgmo.rehearsal import control

    cuda = sys.modules.get("torch.cuda")
    if cuda is None or not cuda.is_initialized():
        return {"card_peak": 0, "reserved_peak": 0, "allocated_peak": 0, "context": 0}
    devices = range(cuda.device_count())
    contexts = any(control.has_context(one) for one in devices)
    of_host: dict[str, Any] = getattr(cuda, "host_memory_stats", dict)()  # torch 2.8 and later
    return {
        "card_peak": max(control.peak(one) for one in devices),
        "reserved_peak": max(cuda.max_memory_reserved(one) for one in devices),
        "allocated_peak": max(cuda.max_memory_allocated(one) for one in devices),
        "context": int(os.environ.get("FAKECUDA_CONTEXT", "0")) if contexts else 0,
        "pinned_peak": int(of_host.get("allocated_bytes.peak", 0)),
    }


def count_out_of_memory() -> int:
    """Return how often memory ran out on any card, including errors that the script caught."""
    cuda = sys.modules.get("torch.cuda")
    if cuda is None or not cuda.is_initialized():
        return 0
    return sum(cuda.memory_stats(one).get("num_ooms", 0) for one in range(cuda.device_count()))


def requesting_line(error: BaseException) -> str:
    """Return the line that ran out of memory, as "train.py:12: loss.backward()"; "" if unknown.

    The line is of the innermost frame outside of installed packages, the standard library and pgmo.
    Without such a frame, the line is of the innermost frame.
    """
    frames = traceback.extract_tb(error.__traceback__)
    own = [one for one in frames if not _installed(one.filename)]
    for frame in reversed(own or frames):
        return f"{os.path.relpath(frame.filename)}:{frame.lineno}: {frame.line}"
    return ""


def _installed(path: str) -> bool:
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    folders = (*PACKAGES, os.path.dirname(os.__file__), package, "<frozen")
    return any(one in path for one in folders)
