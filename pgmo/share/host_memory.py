"""Memory of the host that this process may use."""

from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup/memory.max")
_MEMINFO = Path("/proc/meminfo")


def host_memory(meminfo: Path = _MEMINFO, cgroup: Path = _CGROUP) -> tuple[int, int]:
    """Return the bytes of host memory for this process, and the bytes that are available now.

    Both are at most the limit of the container. Unknown values are 0.
    """
    total = available = 0
    try:
        for line in meminfo.read_text().splitlines():
            name, _, value = line.partition(":")
            if name == "MemTotal":
                total = int(value.split()[0]) << 10
            elif name == "MemAvailable":
                available = int(value.split()[0]) << 10
    except (OSError, ValueError):
        return 0, 0
    try:
        limit = int(cgroup.read_text())
    except (OSError, ValueError):  # no such file, or "max"
        return total, available
    return min(total, limit), min(available, limit)
