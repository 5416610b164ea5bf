"""Problems with this machine's memory and with environment settings."""

import os
from collections.abc import Iterator, Mapping

from pgmo.doctor.finding import Finding
from pgmo.rehearsal.environment import SETTINGS
from pgmo.units import format_bytes

_COMPILING = 512 << 20
"""Minimum free bytes to compile an adapter. Below it, the doctor warns. Compiling the CPU adapter
took 229 MiB."""


def conflicting_settings(environment: Mapping[str, str] | None = None) -> Iterator[Finding]:
    """Yield problems with environment variables of PyTorch and of the C library."""
    given = os.environ if environment is None else environment
    for name in SETTINGS:
        if "cudaMallocAsync" in given.get(name, ""):
            yield Finding(
                "warning",
                f"{name}={given[name]} selects the driver's memory pool, beside which an arena "
                "would take more memory: sessions warn and serve nothing",
                f"unset {name}, or open sessions with pages=False",
            )
    if given.get("PYTORCH_NO_CUDA_MEMORY_CACHING"):
        yield Finding(
            "warning",
            "PYTORCH_NO_CUDA_MEMORY_CACHING is set: torch requests every block without a slot "
            "from the driver, which waits for the GPU each time",
            "unset it, unless you are looking for an access beyond a block's end",
        )
    if given.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1"):
        yield Finding(
            "warning",
            f"CUDA_VISIBLE_DEVICES is {given['CUDA_VISIBLE_DEVICES']!r}, which hides every GPU",
            "unset it to use the GPUs",
        )
    for name in ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES"):
        if given.get(name):
            yield Finding(
                "warning",
                f"{name} is set, so pgmo does not change malloc's thresholds while a session "
                "on the CPU records, and the process may take more memory meanwhile",
                f"unset {name}, unless you rely on it",
            )


def memory_problems(available: int) -> Iterator[Finding]:
    """Yield a problem if there is too little memory to compile an adapter."""
    if 0 < available < _COMPILING:
        yield Finding(
            "warning",
            f"{format_bytes(available)} of memory are available; compiling an adapter may need "
            f"up to {format_bytes(_COMPILING)}",
            "close other programs, or compile it elsewhere and share PGMO_CACHE_DIR",
        )
