"""Names of the supported frameworks and devices."""

import re

from pgmo import removed
from pgmo.errors import OptionError

FRAMEWORKS = ("torch", "cupy")

_DEVICE = re.compile(r"None|cpu|cuda(:\d+)?")


def check_framework(framework: str, device: object) -> None:
    """Raise `OptionError` if a framework or a device is not supported."""
    if not _DEVICE.fullmatch(str(device)):
        raise OptionError(f"device={device!r} is not supported; use 'cpu', 'cuda' or 'cuda:0'")
    if isinstance(framework, tuple | list):
        raise OptionError(f"framework={framework!r}: {removed.FRAMEWORKS}")
    if framework not in FRAMEWORKS:
        raise OptionError(f"framework={framework!r} is not one of {', '.join(FRAMEWORKS)}")
    if framework == "cupy" and str(device) == "cpu":
        raise OptionError("device='cpu': CuPy's arrays are on CUDA devices; use 'cuda'")


def check_managed(framework: str) -> None:
    """Raise `OptionError` for CuPy, which has its own unified memory."""
    if framework == "cupy":
        raise OptionError(
            "unified memory for framework='cupy' was removed; use CuPy's own: cupy.cuda."
            "set_allocator(cupy.cuda.MemoryPool(cupy.cuda.malloc_managed).malloc)"
        )
