"""One-line reason why a script ended, and advice for scripts that a rehearsal cannot run.

    DataError: loading failed: the file ends early (from ValueError: the file ends early)

The last line of Python's traceback is not used, because it may belong to the text of the error:
torch's error of CUDA initialization ends with the lines that first requested CUDA.
"""

import mmap
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from pgmo.rehearsal.environment import PACKAGES

_LAUNCHES = b"cudaLaunchKernel"
_OWN = ("/torch/", "/nvidia/", "/triton/", "/pgmo/", "/torchvision", "/torchaudio")
_MOST = 1 << 29
"""Maximum number of bytes of a library to search. Bytes beyond it are not searched."""

_ADVICE: Sequence[tuple[str, str]] = (
    (
        r"No module named 'triton|triton.*not (found|installed|available)|TritonMissing",
        "it needs Triton, which is not installed: install it next to this torch; its kernels are "
        "compiled for the card and compute nothing",
    ),
    (
        r"Error building extension|CUDA_HOME|nvcc",
        "it compiles CUDA code of its own, which has failed: install the CUDA toolkit (nvcc and "
        "libcudart) if this machine lacks it, or leave that part out",
    ),
    (
        r"NCCL|nccl",
        "it calls NCCL directly, which needs real cards: use torch.distributed, and "
        "`pgmo rehearse --world`, which simulates NCCL",
    ),
    (
        r"gloo|connectFullMesh|TCPStore|DistStore|Connection refused|client socket",
        "it connects to other processes by itself: rehearse one rank with "
        "`pgmo rehearse --world`, which simulates the other ranks",
    ),
    (
        r"cusolver|cufft|cusparse|curand|nvrtc|NVRTC|CUFFT|jiterator",
        "it calls a CUDA library that rehearsals lack: leave that part out, or record on a card "
        "with pgmo run --profile-only",
    ),
    (
        r"CUDA driver|no kernel image|invalid device function|cudaErrorNotSupported|libcuda",
        "it has CUDA code of its own, which rehearsals cannot run: leave that part out, or record "
        "on a card with pgmo run --profile-only",
    ),
)
"""Patterns in the last line of an error, each with advice."""


_LONGEST = 300
"""Maximum number of characters of one error's line. Longer lines are cut."""

_DEEPEST = 16
"""Maximum number of causes to follow. Earlier causes are not reported."""


def reason_of(error: BaseException) -> str:
    """Return the error and its first cause, if any: the type and the first line of each text."""
    first = error
    for _ in range(_DEEPEST):
        before = first.__cause__ or (None if first.__suppress_context__ else first.__context__)
        if before is None:
            break
        first = before
    ending = _line(error)
    return ending if first is error else f"{ending} (from {_line(first)})"


def shortened(text: str, most: int) -> str:
    """Return the text, or only its beginning and end if it has more than `most` characters."""
    half = most // 2
    return text if len(text) <= most else f"{text[:half]}\n[...]\n{text[-half:]}"


def _line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    name = type(error).__name__
    return f"{name}: {lines[0]}"[:_LONGEST] if lines else name


def advice(error: str) -> str | None:
    """Return advice if an error is typical of rehearsals; None for other errors."""
    last = error.strip().splitlines()[-1] if error.strip() else ""
    return next((text for pattern, text in _ADVICE if re.search(pattern, last)), None)


def packages_with_kernels() -> list[str]:
    """Return the sorted names of packages in this process that contain their own CUDA kernels."""
    return sorted({_package(path) for path in _libraries() if _launches(path)})


def _libraries() -> Iterator[Path]:
    """Yield loaded libraries of installed packages and extensions, except those of `_OWN`."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return
    known = {os.path.realpath(os.environ.get("PGMO_FAKECUDA", ""))}
    for path in sorted({line.partition("/")[2] for line in lines if ".so" in line}):
        found = Path("/" + path)
        if not any(one in found.parts for one in (*PACKAGES, "torch_extensions")):
            continue
        if any(one in f"/{path}" for one in _OWN) or os.path.realpath(found) in known:
            continue
        yield found


def _launches(path: Path) -> bool:
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
            return data.find(_LAUNCHES, 0, min(len(data), _MOST)) >= 0
    except (OSError, ValueError):
        return False


def _package(path: Path) -> str:
    """Return the top-level folder of an installed package, or the extension's name."""
    for at, part in enumerate(path.parts):
        if part in PACKAGES:
            return path.parts[at + 1].partition(".")[0]
    return path.name.partition(".")[0]
