"""Counts the arithmetic and the memory traffic of one iteration, operator by operator."""

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry


class Work(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees every operator of an iteration; backward passes run under it, too.

    Fused kernels move less than the operators that they are made of, so the traffic is that of the
    script as it is written.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flops: dict[str, float] = {}
        self.moved = 0
        self.operators = 0

    def begin(self) -> None:
        """Sees what comes from now on."""
        # It ends in another hook, so there is no block to put it around.
        self.__enter__()  # type: ignore[no-untyped-call]

    def end(self) -> dict[str, Any]:
        """What was seen: `flops` by type, bytes `moved`, and the number of `operators`."""
        self.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        return {"flops": self.flops, "moved": self.moved, "operators": self.operators}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self._count(func, args, kwargs or {}, out)
        return out

    def _count(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        read = [one for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)]
        if not any(one.is_cuda for one in read):
            return
        if func.is_view:
            return
        self.operators += 1
        made = [one for one in tree_leaves(out) if isinstance(one, Tensor)]
        self.moved += sum(one.numel() * one.element_size() for one in (*read, *made))
        formula = flop_registry.get(func._overloadpacket)
        if formula is not None:
            kind = str(made[0].dtype).removeprefix("torch.")
            if kind == "float32" and torch.backends.cuda.matmul.allow_tf32:
                kind = "tf32"
            count = float(formula(*args, **kwargs, out_val=out))
            self.flops[kind] = self.flops.get(kind, 0.0) + count
