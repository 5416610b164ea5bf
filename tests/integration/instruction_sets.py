"""What a processor can do, and how to have kernels use less of it.

    environment("AVX2")      for a process that has not begun to compute

oneDNN and ATen choose kernels by it, and with them workspaces and the order of sums.
"""

import re
from pathlib import Path

_FLAGS = {
    "SSE41": ("sse4_1",),
    "AVX2": ("avx2", "fma"),
    "AVX512_CORE": ("avx512f", "avx512bw", "avx512vl", "avx512dq"),
}
_ATEN = {"SSE41": "default", "AVX2": "avx2", "AVX512_CORE": "avx512"}

ALL = tuple(_FLAGS)
"""By oneDNN's names, from the least on."""


def available():
    """Those that this processor has."""
    words = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    flags = set(words[1].split()) if words else set()  # none where it is no x86
    return [name for name, needed in _FLAGS.items() if flags.issuperset(needed)]


def environment(name):
    """Variables that forbid everything beyond."""
    return {"ONEDNN_MAX_CPU_ISA": name, "ATEN_CPU_CAPABILITY": _ATEN[name]}
