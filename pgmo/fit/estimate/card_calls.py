"""What `torch.cuda` answers while a step is estimated: that there is one card, which is idle."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch._subclasses import fake_tensor

from pgmo.cards.card import Card
from pgmo.fit.estimate.ledger import Ledger


class _Idle:
    """A stream, an event or a guard on which nothing ever has to wait."""

    cuda_stream = 0
    device = torch.device("cuda", 0)

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        pass

    def __enter__(self) -> "_Idle":
        return self

    def __exit__(self, *_error: object) -> None:
        pass

    def record(self, *_args: Any) -> None:
        pass

    def record_event(self, *_args: Any) -> "_Idle":
        return self

    def wait(self, *_args: Any) -> None:
        pass

    wait_stream = wait_event = synchronize = wait

    def query(self) -> bool:
        return True

    def elapsed_time(self, *_args: Any) -> float:
        return 1.0


@contextmanager
def pretended(card: Card, ledger: Ledger) -> Iterator[None]:
    """Inside, a program that asks for a card finds this one.

    Args:
        card: what is said of it.
        ledger: whose events `empty_cache` and `memory_allocated` are of.

    Example:
        >>> from pgmo.cards.catalog import find
        >>> with pretended(find("A100-40GB"), Ledger()):
        ...     torch.cuda.get_device_capability()
        (8, 0)
    """
    with ExitStack() as undo:
        for name, value in _answers(card, ledger).items():
            undo.enter_context(mock.patch.object(torch.cuda, name, value, create=True))
        memory = torch.cuda.memory
        for name in ("empty_cache", "memory_allocated", "max_memory_allocated", "mem_get_info"):
            undo.enter_context(mock.patch.object(memory, name, getattr(torch.cuda, name)))
        undo.enter_context(mock.patch.object(fake_tensor, "init_gpu_context"))
        undo.enter_context(mock.patch.object(torch.backends.cuda, "is_built", return_value=True))
        yield


def _answers(card: Card, ledger: Ledger) -> dict[str, Any]:
    major, minor = card.capability
    properties = SimpleNamespace(
        name=card.name,
        major=major,
        minor=minor,
        total_memory=card.usable,
        multi_processor_count=card.multiprocessors,
        warp_size=32,
        max_threads_per_multi_processor=2048 if major >= 8 else 1024,
        regs_per_multiprocessor=65536,
        shared_memory_per_block=49152,
        is_integrated=False,
        is_multi_gpu_board=False,
    )

    def nothing(*_args: Any, **_kwargs: Any) -> None:
        return None

    def zero(*_args: Any, **_kwargs: Any) -> int:
        return 0

    stream = _Idle()
    idle = nullcontext()
    return {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "is_bf16_supported": lambda including_emulation=True: major >= 8 or including_emulation,
        "is_tf32_supported": lambda: major >= 8,
        "_lazy_init": nothing,
        "_lazy_call": nothing,
        "init": nothing,
        "device_count": lambda: 1,
        "current_device": zero,
        "_exchange_device": zero,
        "_maybe_exchange_device": zero,
        "set_device": nothing,
        "device": lambda *_: idle,
        "device_of": lambda *_: idle,
        "get_device_name": lambda *_: card.name,
        "get_device_capability": lambda *_: card.capability,
        "get_device_properties": lambda *_: properties,
        "get_arch_list": lambda: [f"sm_{major}{minor}"],
        "synchronize": nothing,
        "manual_seed": nothing,
        "manual_seed_all": nothing,
        "seed": nothing,
        "seed_all": nothing,
        "initial_seed": zero,
        "get_rng_state": lambda *_: torch.zeros(16, dtype=torch.uint8),
        "get_rng_state_all": lambda: [torch.zeros(16, dtype=torch.uint8)],
        "set_rng_state": nothing,
        "set_rng_state_all": nothing,
        "Stream": _Idle,
        "Event": _Idle,
        "stream": lambda *_: idle,
        "current_stream": lambda *_: stream,
        "default_stream": lambda *_: stream,
        "set_stream": nothing,
        "is_current_stream_capturing": lambda: False,
        "empty_cache": ledger.empty_cache,
        "ipc_collect": nothing,
        "memory_allocated": lambda *_: ledger.allocated,
        "memory_reserved": lambda *_: ledger.allocated,
        "max_memory_allocated": lambda *_: ledger.most,
        "max_memory_reserved": lambda *_: ledger.most,
        "reset_peak_memory_stats": nothing,
        "reset_max_memory_allocated": nothing,
        "memory_stats": lambda *_: {},
        "memory_summary": lambda *_, **__: "",
        "mem_get_info": lambda *_: (card.usable - ledger.allocated, card.usable),
        "set_per_process_memory_fraction": nothing,
    }
