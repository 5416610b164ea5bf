"""Measures models, each in a process of its own: `python -m estimated.worker WAY NAME ...`.

    measured    on the stub CUDA runtime: what PyTorch's allocator had to give
    estimated   with a CPU build of torch: what fake tensors say of it, and how long that takes
    plain       with a CPU build of torch: seconds of one step that computes

Convolutions and attention run without cuDNN everywhere, since the stub that is measured has none.
"""

import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

import torch

from estimated import CARD, load

STEPS = 3


def measured(name: str) -> dict[str, Any]:
    step = load()[name].build("cuda")
    for _ in range(STEPS):
        step()
    return {
        "allocated": torch.cuda.max_memory_allocated(),
        "reserved": torch.cuda.max_memory_reserved(),
        "torch": torch.__version__,
        "device": torch.cuda.get_device_capability(),
    }


def estimated(name: str) -> dict[str, Any]:
    from pgmo.fit.estimate import estimate

    entry = load()[name]
    found = estimate(lambda: entry.build("cuda"), card=CARD, steps=STEPS)
    return {
        "allocated": found.need.allocated_peak,
        "reserved": found.need.reserved["default"],
        "expandable": found.need.reserved["expandable"],
        "pgmo": found.need.reserved["pgmo"],
        "seconds": found.seconds,
        "notes": list(found.need.notes),
        "torch": torch.__version__,
    }


def plain(name: str) -> dict[str, Any]:
    step = load()[name].build("cpu")
    step()
    begin = time.perf_counter()
    step()
    return {"seconds": time.perf_counter() - begin}


WAYS: dict[str, Callable[[str], dict[str, Any]]] = {
    "measured": measured,
    "estimated": estimated,
    "plain": plain,
}


def main() -> None:
    way, *names = sys.argv[1:]
    for library in {load()[name].library for name in names}:
        importlib.import_module(library)  # once for all
    torch.backends.cudnn.enabled = False
    torch.backends.cuda.enable_cudnn_sdp(False)
    for name in names:
        if way == "measured":  # CUDA does not survive a fork
            _answer(way, names[0])
        child = os.fork()
        if not child:
            _answer(way, name)
        os.waitpid(child, 0)


def _answer(way: str, name: str) -> NoReturn:
    """Writes one line and ends the process, so that the next one finds nothing of it."""
    try:
        found = WAYS[way](name)
    except Exception as error:
        found = {"failed": f"{type(error).__name__}: {error}"[:300]}
    print(json.dumps({"model": name, **found}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
