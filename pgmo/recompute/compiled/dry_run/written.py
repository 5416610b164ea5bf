"""Tensors that a forward pass writes, such as parameters; a capture restores them."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from pgmo.recompute.capture.compat import fakes, storage_key


class WriteRollback(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Mode that undoes the writes of operators into given tensors when it ends."""

    supports_higher_order_operators = True

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Return True, so that Dynamo compiles despite this mode, also in other threads."""
        return True

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._tensors = {storage_key(one): one for one in tensors}
        self._before: dict[int, Tensor] = {}

    @property
    def written(self) -> list[Tensor]:
        """Tensors that operators wrote."""
        return [self._tensors[key] for key in self._before]

    def __torch_dispatch__(
        self, operator: Any, _types: Any, arguments: Any = (), keywords: Any = None
    ) -> Any:
        keywords = keywords or {}
        schema = getattr(operator, "_schema", None)
        if schema is not None and schema.is_mutable:
            for place, one in enumerate(schema.arguments):
                if one.alias_info is not None and one.alias_info.is_write:
                    given = arguments[place] if place < len(arguments) else keywords.get(one.name)
                    self._keep(fakes(given))
        return operator(*arguments, **keywords)

    def _keep(self, given: Sequence[Tensor]) -> None:
        for key in map(storage_key, given):
            if key in self._tensors and key not in self._before:
                self._before[key] = self._tensors[key].detach().clone()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        with torch.no_grad():
            for key, before in self._before.items():
                self._tensors[key].copy_(before)


@contextmanager
def kept(tensors: Sequence[Tensor]) -> Iterator[None]:
    """Restore the contents of tensors after a block."""
    before = [one.detach().clone() for one in tensors]
    try:
        yield
    finally:
        with torch.no_grad():
            for one, copy in zip(tensors, before, strict=True):
                one.copy_(copy)
