"""Recording of one run of a piece of code, for example in a test."""

import gc
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from pgmo.allocator.adapters.find import adapter_of
from pgmo.allocator.optimize import optimize
from pgmo.allocator.session import open_sessions
from pgmo.allocator.session.session import Session
from pgmo.errors import SessionError

if TYPE_CHECKING:
    from pgmo.profiler.profile import Profile


class OnePass:
    """Recording of one run of a `with` block; made by `record_once`.

    Attributes:
        device: device whose memory is recorded.
        profile: profile that does not repeat; blocks that are never freed live to its end. None
            before the end of the recording, and if no memory was requested.
    """

    def __init__(self, device: str) -> None:
        self.device = device
        self.profile: Profile | None = None

    @property
    def peak(self) -> int:
        """Peak of the live bytes of the blocks requested in the recording; 0 before its end."""
        return 0 if self.profile is None else self.profile.max_load()


@contextmanager
def record_once(device: object = None, *, name: str = "") -> Iterator[OnePass]:
    """Record every allocation on a device inside the `with` block, with the operator that makes it.

    Nothing is planned or served. Operators become a few microseconds slower; their results do not
    change. Earlier allocations do not count. At the end, the yielded object gets its profile.

    Args:
        device: "cpu", "cuda", "cuda:1"; by default as in `pgmo.optimize`.
        name: name of the profile.

    Raises:
        SessionError: if a session is open on the device or is opened inside the `with` block, or if
            there are too many requests to record.
        AdapterError: if PyTorch or the device is missing, or pgmo's adapter cannot be installed.
        OptionError: if `device` is no valid name.
    """
    session = optimize(device=device, pages=False, model_name=name, tags=True)
    adapter = adapter_of(device)
    if open_sessions.find_open(adapter) is not None:
        raise SessionError(
            f"a session of pgmo is open on {adapter.device}, so its memory cannot be recorded "
            "again; close the session first, or use session.profile"
        )
    session.shares_card = False
    made, took_over = OnePass(adapter.device), False

    def end_recording() -> None:
        nonlocal took_over
        took_over = True
        _close(session)

    _start_alike(adapter.device)
    with session:
        session.on_user_session = end_recording
        try:
            yield made
            if took_over:
                raise SessionError(
                    "a session of pgmo was opened while pgmo recorded this pass, but only one "
                    "recording at a time is possible; use session.profile of that session"
                )
            opened = open_sessions.find_open(adapter)
            assert opened is not None
            profile = opened.lifecycle.recording()
            if profile is not None:
                notes = {"found": "one pass, from its beginning to its end"}
                profile = replace(profile, meta=replace(profile.meta, notes=notes))
            made.profile = profile
            if adapter.engine.recording_truncated:
                raise SessionError("there are too many requests to record; record a part of them")
        finally:
            _close(session)


def _close(session: Session) -> None:
    with warnings.catch_warnings():  # a session without iterations would warn here
        warnings.simplefilter("ignore")
        session.close()


def _start_alike(device: str) -> None:
    """Free garbage and cuBLAS workspaces, so that equal code makes equal requests."""
    gc.collect()
    if device.startswith("cuda"):
        import torch

        clear = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)
        if clear is not None:
            with suppress(RuntimeError):
                clear()
