"""Pages for a program from its first CUDA request on, even if it has no iterations.

    import torch.cuda ──▶ CUDA is initialized ──▶ pages serve requests
                                                     └─ training begins ──▶ a session adds the plan

Source: `torch.cuda._lazy_call`, by which PyTorch itself delays work that needs CUDA.
"""

import functools
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgmo.errors import PgmoError
from pgmo.imports import after_import

if TYPE_CHECKING:
    from pgmo.allocator.adapters.baseline import Baseline
    from pgmo.allocator.session.session import Session
    from pgmo.allocator.session.verdict.summary import Summary


def serve_from_the_start(notify: Callable[[str], object]) -> None:
    """Serve requests from pages once the program initializes CUDA. Without CUDA, do nothing.

    Args:
        notify: called with the reason if pages cannot serve. The program continues without pages.
    """
    after_import("torch.cuda", lambda: _when_initialized(notify))


def serves() -> bool:
    """Return whether pages serve this process."""
    return bool(_begun)


def baselines() -> "dict[str, Baseline]":
    """Return the figures of each used device, for plain PyTorch and pgmo; {} without pages."""
    if not _begun:
        return {}
    from pgmo.allocator.adapters.torch_cuda import device_baseline

    count = sys.modules["torch.cuda"].device_count()
    found = {f"cuda:{one}": device_baseline(one) for one in range(count)}
    return {device: one for device, one in found.items() if one is not None and one.requests}


def summary_of(session: "Session") -> "Summary":
    """Return a session's summary; with pages, its verdict is about the whole process."""
    summary = session.summary()
    figures = baselines().get(session.device)
    if figures is None or summary.verdict is None:
        return summary
    from pgmo.allocator.session.verdict.judge import judge_device

    verdict = judge_device(figures, reason=summary.verdict.reason, since=summary.since)
    return replace(summary, verdict=verdict)


_begun: list[bool] = []


def _when_initialized(notify: Callable[[str], object]) -> None:
    cuda: Any = sys.modules.get("torch.cuda")
    put_off = getattr(cuda, "_lazy_call", None)
    if put_off is None or sys.modules["torch"].version.cuda is None:
        return
    put_off(lambda: _begin(notify))
    _initialize_before_recording(cuda)


def _initialize_before_recording(cuda: Any) -> None:
    """Make `_record_memory_history` initialize CUDA, so that the history has requests of pages.

    PyTorch announces the beginning of a history only to the allocator that is installed then.
    """
    record = getattr(cuda.memory, "_record_memory_history", None)
    if record is None:
        return

    @functools.wraps(record)
    def record_after_begin(*args: Any, **kwargs: Any) -> Any:
        if cuda.is_available():
            cuda.init()
        return record(*args, **kwargs)

    cuda.memory._record_memory_history = record_after_begin


def _begin(notify: Callable[[str], object]) -> None:
    from pgmo.allocator.adapters.torch_cuda import pages_wanted, serve_without_session

    if not pages_wanted():
        return
    try:
        serve_without_session()
    except PgmoError as error:
        notify(f"pages serve no requests before training begins: {error}")
    else:
        _begun.append(True)
