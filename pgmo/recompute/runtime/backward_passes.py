"""Wrapper of the function through which `backward()` and `autograd.grad()` call autograd's engine.

The wrapper calls the functions of `surround`. If a backward pass raises an error, the wrapper also
waits for autograd's device threads:

    main thread     backward( ......... ) raises        except: a smaller batch
    device thread        operator fails --^   drops the error, then node and graph   needs the GIL

A device thread drops the error before it drops the failed node. If the error has passed through
Python, dropping it needs the GIL. So the graph of the failed step lives until the main thread
releases the GIL, perhaps after the main thread has requested memory again. An error of a compiled
backward pass has passed through Python, because the node of this pass runs Python code. Other
errors need no GIL.
"""

import functools
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pgmo.error_frames import clear_frames
from pgmo.profiler.tagging import dynamo

Around = Callable[[Callable[[], Any], Any, tuple[Any, ...]], Any]
"""Function that runs a backward pass, and returns its result.

Its arguments are a function that runs the pass, the tensors to differentiate, and the engine's
other positional arguments."""

_attached = False
_surrounding: list[Around] = []


class _Thread(threading.local):
    waits = False


_thread = _Thread()


def attach() -> None:
    """Install the wrapper. Repeated calls have no effect."""
    global _attached
    if _attached:
        return
    _attached = True
    import torch

    graph: Any = torch.autograd.graph
    run_engine = graph._engine_run_backward

    @functools.wraps(run_engine)
    def run_and_wait(outputs: Any, *more: Any, **keywords: Any) -> Any:
        run = functools.partial(run_engine, outputs, *more, **keywords)
        for around in tuple(_surrounding):  # Other threads and finalizers may change the list.
            run = functools.partial(around, run, outputs, more)
        try:
            return run()
        except BaseException as error:
            clear_frames(error)
            del run, outputs, more, keywords
            if not _thread.waits:
                await_device_threads()
            raise

    dynamo.skip(run_and_wait)
    modules: tuple[Any, ...] = (graph, torch.autograd)
    for module in modules:
        if module._engine_run_backward is run_engine:
            module._engine_run_backward = run_and_wait


def surround(around: Around) -> Callable[[], None]:
    """Let later backward passes run through `around`, on the threads that start the passes.

    Returns:
        A function that removes `around`.
    """
    attach()
    _surrounding.append(around)

    def end() -> None:
        if around in _surrounding:
            _surrounding.remove(around)

    return end


def await_device_threads() -> None:
    """Wait until autograd's threads have dropped the nodes that they ran last.

    The function runs an empty backward pass on each CUDA device in use. This pass begins only after
    the nodes are dropped, and allocates nothing. The function returns immediately inside another
    backward pass, and before PyTorch has initialized CUDA.
    """
    import torch

    core: Any = torch._C
    if not torch.cuda.is_initialized() or core._current_graph_task_id() != -1:  # type: ignore[no-untyped-call]
        return
    _thread.waits = True
    try:
        for index in range(torch.cuda.device_count()):
            if core._cuda_hasPrimaryContext(index):
                with suppress(Exception):  # The device may be broken.
                    _run_nothing(index)
    finally:
        _thread.waits = False


def _run_nothing(index: int) -> None:
    import torch

    with torch.enable_grad(), torch.inference_mode(False):
        empty = torch.empty(0, device=f"cuda:{index}", requires_grad=True)
        torch.autograd.grad(empty.clone(), empty, empty.detach())
