"""One rank of a job whose other ranks are not there: a fake process group answers for them.

Source: `torch.testing._internal.distributed.fake_pg`, whose collectives take part in nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

from pgmo.imports import after_import


@dataclass
class FakeWorld:
    """Whatever backend the script asks for, it gets the fake one.

    Args:
        rank: of this process.
        size: how many there are.

    Attributes:
        notes: what there is to say of it at the end.
    """

    rank: int
    size: int
    notes: list[str] = field(default_factory=list)

    def set(self) -> None:
        """Waits for `torch.distributed`."""
        after_import("torch.distributed.distributed_c10d", self._groups)
        after_import("torch.nn.parallel.distributed", self._data_parallel)

    def _groups(self) -> None:
        import torch.distributed.distributed_c10d as c10d

        module: Any = c10d
        init, new_group = module.init_process_group, module.new_group

        @wraps(init)
        def init_process_group(*_args: Any, **kwargs: Any) -> None:
            from torch.testing._internal.distributed.fake_pg import FakeStore

            kept = {name: kwargs[name] for name in ("timeout", "group_name") if name in kwargs}
            init("fake", rank=self.rank, world_size=self.size, store=FakeStore(), **kept)

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

    def _data_parallel(self) -> None:
        """What fake collectives return is nothing, which the reducer does not expect."""
        import torch
        from torch.nn.parallel import distributed

        kind: Any = distributed.DistributedDataParallel
        original = kind.__init__

        def unreduced(_state: None, bucket: Any) -> Any:
            future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
            future.set_result(bucket.buffer())
            return future

        unreduced.__annotations__.clear()  # torch checks what is annotated

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
                f"the communication hook {name} was left out: what it takes is unknown"
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
