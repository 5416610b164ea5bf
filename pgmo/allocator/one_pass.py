"""Recording of a piece of code once, from beginning to end, as tests need it."""

import gc
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

import numpy as np

from pgmo.allocator.adapters.find import adapter_of
from pgmo.allocator.optimize import optimize
from pgmo.allocator.session import open_sessions
from pgmo.allocator.session.session import Session
from pgmo.errors import SessionError
from pgmo.profiler.iterations.gradient_sums import summed_in_place
from pgmo.profiler.profile import Profile
from pgmo.profiler.recording import Iteration


class OnePass:
    """Recording of one run of a block; made by `record_once`.

    Attributes:
        device: device whose memory is recorded.
        profile: linear profile, in which blocks that are not freed live to the end. None until the
            recording has ended, and if nothing was requested.
    """

    def __init__(self, device: str) -> None:
        self.device = device
        self.profile: Profile | None = None

    @property
    def peak(self) -> int:
        """Peak of live bytes, of the blocks requested during the recording."""
        return 0 if self.profile is None else self.profile.max_load()


@contextmanager
def record_once(device: object = None, *, name: str = "") -> Iterator[OnePass]:
    """Record every request of a device's memory inside the block, with its tag.

    Nothing is planned or served. Operators become some microseconds slower; their results do not
    change. Blocks allocated before the recording, and their frees, do not count.

    Args:
        device: "cpu", "cuda", "cuda:1"; by default as in `pgmo.optimize`.
        name: name of the profile.

    Yields:
        The recording, whose profile is complete after the block.

    Raises:
        SessionError: if a session is open on the device or is opened inside the block, or if there
            are too many requests to record.
        AdapterError: if PyTorch is missing, or its allocator cannot be reached.
        OptionError: if there is no such device.

    Example:
        >>> with record_once("cpu") as recorded:  # doctest: +SKIP
        ...     train_step(batch)
        >>> recorded.peak  # doctest: +SKIP
        1234567
    """
    session = optimize(device=device, pages=False, model_name=name, tags=True)
    adapter = adapter_of(device)()
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
                    "a session of pgmo was opened inside of what is recorded, and there is one "
                    "recording at a time; ask that session instead: session.profile"
                )
            made.profile = _without_sums(session.recording)
            if adapter.engine.recording_truncated:
                raise SessionError("more was requested than can be recorded; record a part of it")
        finally:
            _close(session)


def _close(session: Session) -> None:
    with warnings.catch_warnings():  # a session without iterations warns at its end
        warnings.simplefilter("ignore")
        session.close()


def _without_sums(profile: Profile | None) -> Profile | None:
    """Return the profile as it is without tagging, which adds requests for gradient sums."""
    if profile is None:
        return None
    recorded = Iteration(
        index=0,
        first=0,
        size=profile.size,
        stream=profile.stream,
        thread=profile.thread,
        tag=profile.tag,
        gone=profile.end,
        shared=profile.shared,
        in_gap=np.zeros(len(profile), np.bool_),
    )
    iteration, summed = summed_in_place(recorded, profile.tags)
    kept = ~summed
    ticks = np.concatenate(([0], np.cumsum(kept)))  # number of kept requests before each
    return Profile.from_columns(
        size=profile.size[kept],
        start=np.arange(ticks[-1]),
        end=ticks[iteration.gone[kept]],
        stream=profile.stream[kept],
        thread=profile.thread[kept],
        tag=profile.tag[kept],
        shared=profile.shared[kept],
        ticks=int(ticks[-1]),
        circular=False,
        steady=False,
        tags=profile.tags,
        meta=replace(profile.meta, notes={"found": "one pass, from its beginning to its end"}),
    )


def _start_alike(device: str) -> None:
    """Free leftovers of earlier work, so that equal code makes equal requests."""
    gc.collect()
    if device.startswith("cuda"):
        import torch

        clear = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)
        if clear is not None:
            with suppress(RuntimeError):
                clear()
