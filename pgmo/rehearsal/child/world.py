"""Rehearsal of one rank: a fake process group replaces the other ranks.

If a script starts its ranks itself, by `torch.multiprocessing.spawn` or with environment variables
of its own, one of these ranks runs in this process.

Source: `torch.testing._internal.distributed.fake_pg`, whose collectives do nothing.
"""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from inspect import signature
from types import SimpleNamespace
from typing import Any

from pgmo.imports import after_import


@dataclass
class FakeWorld:
    """Replacement of every backend of process groups by the fake backend.

    With a `size` of 1, the script's own rank and size are used. `notes` has the uncertainties.
    """

    rank: int
    size: int
    notes: list[str] = field(default_factory=list)

    def install(self) -> None:
        """Install each replacement as soon as its torch module is imported."""
        after_import("torch", self._replace_spawn)
        after_import("torch.distributed.distributed_c10d", self._replace_groups)
        after_import("torch.nn.parallel.distributed", self._replace_hook)

    def _replace_spawn(self) -> None:
        import torch.multiprocessing

        modules: list[Any] = [torch.multiprocessing, sys.modules["torch.multiprocessing.spawn"]]
        for one in modules:
            one.spawn = one.start_processes = self._run_here

    def _run_here(
        self, fn: Callable[..., Any], args: Any = (), nprocs: int = 1, join: bool = True, **_: Any
    ) -> Any:
        """Run one of the processes that the script starts, in this process."""
        rank = min(self.rank, nprocs - 1)
        self.notes.append(
            f"the script starts {nprocs} processes, of which only number {rank} was rehearsed"
        )
        fn(rank, *args)
        none: list[Any] = []
        context = SimpleNamespace(join=lambda *_, **__: True, processes=none, pids=lambda: none)
        return None if join else context

    def _place(self, given: dict[str, Any]) -> tuple[int, int]:
        """Return the rank and the world size that `init_process_group` should use."""
        if self.size > 1:
            return self.rank, self.size

        def wanted(name: str, variable: str, default: int) -> int:
            value = given.get(name, -1)
            return int(os.environ.get(variable, default)) if value is None or value < 0 else value

        rank, size = wanted("rank", "RANK", 0), wanted("world_size", "WORLD_SIZE", 1)
        if size > 1:
            self.notes.append(
                f"the script makes itself rank {rank} of {size}; the other ranks were simulated"
            )
        return rank, size

    def _replace_groups(self) -> None:
        import torch.distributed.distributed_c10d as c10d

        module: Any = c10d
        init, new_group = module.init_process_group, module.new_group

        @wraps(init)
        def init_process_group(*args: Any, **kwargs: Any) -> None:
            from torch.testing._internal.distributed.fake_pg import FakeStore

            given = signature(init).bind(*args, **kwargs).arguments
            rank, size = self._place(given)
            kept = {name: given[name] for name in ("timeout", "group_name") if name in given}
            init("fake", rank=rank, world_size=size, store=FakeStore(), **kept)

        @wraps(new_group)
        def any_group(*args: Any, **kwargs: Any) -> Any:
            kwargs |= {"backend": None, "pg_options": None}
            return new_group(*args[:2], **kwargs)

        module.init_process_group, module.new_group = init_process_group, any_group
        module.monitored_barrier = lambda *_args, **_kwargs: None
        module.broadcast_object_list = lambda *_args, **_kwargs: None
        module.all_gather_object = _all_gather_object
        module.gather_object = _gather_object
        module.scatter_object_list = _scatter_object_list

    def _replace_hook(self) -> None:
        """Replace DDP's hook, which cannot handle the empty results of fake collectives."""
        import torch
        from torch.nn.parallel import distributed

        kind: Any = distributed.DistributedDataParallel
        original = kind.__init__

        def unreduced(_state: None, bucket: Any) -> Any:
            future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
            future.set_result(bucket.buffer())
            return future

        unreduced.__annotations__.clear()  # torch checks annotations, and would refuse these

        def make(module: Any, *args: Any, **kwargs: Any) -> None:
            original(module, *args, **kwargs)
            register(module, None, unreduced)

        register = kind.register_comm_hook
        kind.__init__ = wraps(original)(make)
        kind.register_comm_hook = self._left_out(register)

    def _left_out(self, register: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(register)
        def left_out(_module: Any, _state: Any, hook: Any) -> None:
            name = getattr(hook, "__name__", "a hook")
            self.notes.append(
                f"the communication hook {name} was left out, so its memory is unknown"
            )

        return left_out


def _all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    object_list[:] = [obj] * len(object_list)


def _gather_object(
    obj: Any, object_gather_list: list[Any] | None = None, *_args: Any, **_kwargs: Any
) -> None:
    if object_gather_list is not None:
        _all_gather_object(object_gather_list, obj)


def _scatter_object_list(
    output: list[Any], given: list[Any] | None = None, *_args: Any, **_kwargs: Any
) -> None:
    if given:
        output[0] = given[0]
