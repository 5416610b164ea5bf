"""Counter of one iteration's arithmetic and memory traffic, by kind of operator."""

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from pgmo.error_frames import clears_dispatch


@clears_dispatch
class Work(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Dispatch mode that counts the operators of an iteration, also in backward passes.

    Operators of equal data type, flops and bytes are one kind. From the counts of all kinds,
    `pgmo.fit.what_if.timing` computes the least time on a card. Bytes are counted per operator;
    fused kernels move fewer bytes.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._counts: dict[tuple[str, float, int], int] = {}

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Return True, so that Dynamo compiles under the mode; `pgmo.recompute` depends on it."""
        return True

    def begin(self) -> None:
        """Start counting."""
        # Another hook leaves the mode, so a `with` block is impossible.
        self.__enter__()  # type: ignore[no-untyped-call]

    def end(self) -> list[list[Any]]:
        """Stop counting and return for each kind of operator its type, flops, bytes and count."""
        self.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        return [[*kind, count] for kind, count in self._counts.items()]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if not func.is_view:
            self._count(func, args, kwargs or {}, out)
        return out

    def _count(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        read = [one for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)]
        made = [one for one in tree_leaves(out) if isinstance(one, Tensor)]
        if not any(one.is_cuda for one in (*read, *made)):
            return
        moved = sum(one.numel() * one.element_size() for one in (*read, *made))
        formula, flops, kind = flop_registry.get(func._overloadpacket), 0.0, ""
        if formula is not None and made:
            flops = _flops(formula, func, args, kwargs, out)
            kind = str(made[0].dtype).removeprefix("torch.")
            if kind == "float32" and torch.backends.cuda.matmul.allow_tf32:
                kind = "tf32"
        key = (kind, flops, moved)
        self._counts[key] = self._counts.get(key, 0) + 1


def _flops(formula: Any, func: Any, args: Any, kwargs: Any, out: Any) -> float:
    """Return torch's flop count; 0 if its formula fails, because that must not end the script."""
    named = zip(func._schema.arguments, args, strict=False)
    # The formulas do not know `out_dtype`, a newer argument, and would misread it.
    given = [value for argument, value in named if argument.name != "out_dtype"]
    others = {name: value for name, value in kwargs.items() if name != "out_dtype"}
    try:
        return float(formula(*given, **others, out_val=out))
    except Exception:
        return 0.0
