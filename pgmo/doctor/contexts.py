"""Measurement of the memory that a CUDA context takes on a card.

this process     free memory ----------------------------> free memory: the difference,
another process               context, cuBLAS, cuDNN           without the other's tensors
"""

import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any

from pgmo.cards import find
from pgmo.errors import OptionError
from pgmo.files.cache_folder import DistrustError
from pgmo.rehearsal.contexts import keep_contexts

_SECONDS = 60
"""Time limit of a measurement in seconds. Loading all libraries of CUDA takes up to 20 s."""

_LARGEST = 4 << 30
"""Maximum plausible difference in bytes. Above it, another program has allocated memory."""

_PROGRAM = """
import sys, torch
device = torch.device("cuda", int(sys.argv[1]))
with torch.cuda.device(device):
    x = torch.ones(64, 64, device=device)
    torch.nn.functional.conv2d((x @ x)[None, None], x[None, None, :3, :3])
    torch.cuda.synchronize()
    print(torch.cuda.memory_reserved(device), flush=True)
sys.stdin.read()
"""
"""Creates a context with the libraries of a training script, prints its reserved bytes, waits."""


def measure_context(torch: Any, index: int) -> int | None:
    """Return the bytes that another process takes on a card, without its tensors.

    Args:
        torch: the module.
        index: number of the device. This process gets a context on it.

    Returns:
        The bytes; None if the measurement failed, or its result is not between 0 and `_LARGEST`.
    """
    try:
        before, _ = torch.cuda.mem_get_info(index)
    except Exception:  # the card cannot be used, but the examination must continue
        return None
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", _PROGRAM, str(index)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        reserved = _first_line(process)
        after, _ = torch.cuda.mem_get_info(index)
    finally:
        process.kill()
        process.communicate()
    if not reserved.strip().isdigit():
        return None
    size = int(before) - int(after) - int(reserved)
    return size if 0 < size < _LARGEST else None


def keep_context(name: str, size: int) -> None:
    """Save the bytes of a card's context under the driver's and pgmo's name, if the cache works."""
    names = {name}
    with suppress(OptionError):
        names.add(find(name).name)
    with suppress(OSError, DistrustError):  # `examine_cache` reports this problem
        keep_contexts(dict.fromkeys(names, size))


def _first_line(process: "subprocess.Popen[str]") -> str:
    """Return the first line that a process prints; "" if it ends earlier or takes too long."""
    assert process.stdout is not None
    timer = threading.Timer(_SECONDS, process.kill)
    timer.start()
    try:
        return process.stdout.readline()
    finally:
        timer.cancel()
