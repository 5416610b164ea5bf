"""Checks of which tensors of a failed step live as long as its error."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

LIBRARY = torch.library.Library("pgmo_tests", "FRAGMENT")
LIBRARY.define("fails(Tensor x) -> Tensor")

_failing = False


def _kernel(x):
    if not _failing:
        return x.clone()
    del x
    raise torch.OutOfMemoryError("memory ran out, as the test wants it")


LIBRARY.impl("fails", _kernel, "CPU")
LIBRARY.impl("fails", torch.empty_like, "Meta")


class FailsInBackward(torch.autograd.Function):
    """Identity whose backward pass runs out of memory inside of `failing`."""

    @staticmethod
    def forward(_ctx, x):
        return x.clone()

    @staticmethod
    def backward(_ctx, gradient):
        return torch.ops.pgmo_tests.fails(gradient)


def fails(x: torch.Tensor) -> torch.Tensor:
    """Return a copy, or run out of memory inside of `failing`."""
    return torch.ops.pgmo_tests.fails(x)


def too_large(x: torch.Tensor) -> torch.Tensor:
    """Return values whose backward pass needs 256 TiB."""
    return x.flatten()[:1].expand(1 << 46)[:4]


@contextmanager
def failing() -> Iterator[None]:
    """Let the operators above run out of memory."""
    global _failing
    _failing = True
    try:
        yield
    finally:
        _failing = False


@contextmanager
def without_collector() -> Iterator[None]:
    """Disable garbage collection, so that reference cycles stay alive."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Noted:
    """Weak references to tensors by name."""

    def __init__(self) -> None:
        self._storages: dict[str, StorageWeakRef] = {}

    def __call__(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        self._storages[name] = StorageWeakRef(tensor.untyped_storage())
        return tensor

    def alive(self) -> list[str]:
        return [name for name, one in self._storages.items() if not one.expired()]


def alive_with_error(run: Callable[[Noted], object]) -> list[str]:
    """Return the tensors that live while frames of pgmo and autograd are in a held traceback.

    Other frames are cleared: those above the first frame of pgmo or autograd, and those of tests.
    """
    noted = Noted()
    with without_collector():
        trace = _trace_of(run, noted)
        assert trace is not None, "no frame of pgmo or of autograd's thread"
        return noted.alive()


def alive_after_error(run: Callable[[Noted], object]) -> list[str]:
    """Return the tensors that live after the error has been dropped."""
    noted = Noted()
    with without_collector():
        try:
            run(noted)
        except Exception:
            pass
        else:
            raise AssertionError("nothing has failed")
        return noted.alive()


def _trace_of(run: Callable[[Noted], object], noted: Noted) -> TracebackType | None:
    try:
        run(noted)
    except Exception as error:
        one = error.__traceback__
        error.__traceback__ = None
    else:
        raise AssertionError("nothing has failed")
    trace, above = _inner(one), True
    while one is not None:
        above = above and one is not trace
        frame: Any = one.tb_frame
        # A frame keeps its callers alive. In autograd's threads, no caller belongs to the program.
        if above or frame.f_globals.get("__name__", "").startswith("tests."):
            with suppress(RuntimeError):  # the frame still runs
                frame.clear()
        one = one.tb_next
    return trace


def _inner(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_name == "_engine_run_backward":
            return trace.tb_next
        if trace.tb_frame.f_globals.get("__name__", "").startswith("pgmo."):
            return trace
        trace = trace.tb_next
    return None
