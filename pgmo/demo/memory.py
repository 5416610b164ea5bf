"""This process's resident memory at its peak, and its page faults (Linux)."""

import resource
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


def peak_resident() -> int:
    """Peak resident memory in bytes since the process began or since `reset_peak_resident`.

    Falls back to `getrusage`, which cannot be reset, where there is no /proc.

    Example:
        >>> peak_resident() > 2**20
        True
    """
    try:
        for line in _STATUS.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def reset_peak_resident() -> bool:
    """Sets the peak to what is resident now; False where the system does not allow it.

    Source: proc(5), `/proc/[pid]/clear_refs`, value 5.

    Example:
        >>> reset_peak_resident() in (True, False)
        True
    """
    try:
        _CLEAR.write_text("5", encoding="ascii")
    except OSError:
        return False
    return True


def page_faults() -> int:
    """Page faults so far that needed no disk: each is a page that the system zeroed and mapped.

    Example:
        >>> page_faults() > 0
        True
    """
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
