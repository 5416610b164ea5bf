"""Serves a program from pages from its first request on, whether it has iterations or not.

    import torch.cuda ──▶ CUDA is initialized ──▶ pages beneath every request
                                                     └─ training begins ──▶ a session adds the plan

Sources: `torch.cuda._lazy_call`, with which PyTorch itself puts off what needs CUDA.
"""

import sys
from collections.abc import Callable
from typing import Any

from pgmo.errors import PgmoError
from pgmo.imports import after_import


def serve_from_the_start(tell: Callable[[str], object]) -> None:
    """Begins when the program initializes CUDA; where that never happens, so it costs nothing.

    Args:
        tell: is told why it cannot be done, where it cannot. The program goes on without.
    """
    after_import("torch.cuda", lambda: _when_initialized(tell))


def peak_of_pages() -> int:
    """The most bytes of all cards that were held; 0 where nothing was served from pages.

    Example:
        >>> peak_of_pages()
        0
    """
    if not _begun:
        return 0
    cuda = sys.modules["torch.cuda"]
    return sum(cuda.max_memory_reserved(device) for device in range(cuda.device_count()))


_begun: list[bool] = []


def _when_initialized(tell: Callable[[str], object]) -> None:
    cuda: Any = sys.modules.get("torch.cuda")
    put_off = getattr(cuda, "_lazy_call", None)
    if put_off is None or sys.modules["torch"].version.cuda is None:
        return
    put_off(lambda: _begin(tell))


def _begin(tell: Callable[[str], object]) -> None:
    from pgmo.allocator.adapters.torch_cuda import pages_wanted, serve_without_session

    if not pages_wanted():
        return
    try:
        serve_without_session()
    except PgmoError as error:
        tell(f"nothing is served before training begins: {error}")
    else:
        _begun.append(True)
