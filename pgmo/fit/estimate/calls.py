"""A function mode: calls that C++ would not take to the card, or not the way that a card takes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode

from pgmo.fit.estimate.attention import attention
from pgmo.fit.estimate.fake_card import FakeCard
from pgmo.fit.estimate.shares import say_share

_CARD = torch.device("cuda", 0)


class CardFunctionMode(TorchFunctionMode):
    """Names the card by its number, and runs attention as a card would.

    C++ completes "cuda" to the current device, which it asks a guard for that does not know.

    Args:
        mode: is told where the program itself means the device "meta".
        capability: of the card.
    """

    def __init__(self, mode: FakeCard, capability: tuple[int, int]) -> None:
        super().__init__()
        self._mode = mode
        self._capability = capability

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs one function."""
        kwargs = kwargs or {}
        rule = _RULES.get(func)
        if rule is not None:
            return rule(self, func, args, kwargs)
        if "device" in kwargs and _is_meta(kwargs["device"]):
            return self._meta(func, args, kwargs)
        return func(*args, **kwargs)

    def _meta(self, func: Any, args: Any, kwargs: Any) -> Any:
        before, self._mode.wants_meta = self._mode.wants_meta, True
        try:
            return func(*args, **kwargs)
        finally:
            self._mode.wants_meta = before

    def _to(self, func: Any, args: Any, kwargs: Any) -> Any:
        if any(map(_is_meta, (*args[1:], *kwargs.values()))):
            return self._meta(func, args, kwargs)
        args = tuple(_numbered(one) for one in args)
        return func(*args, **{name: _numbered(one) for name, one in kwargs.items()})

    def _cuda(self, _func: Any, args: Any, kwargs: Any) -> Any:
        return args[0].to(_CARD, non_blocking=kwargs.get("non_blocking", False))

    def _pinned(self, _func: Any, args: Any, _kwargs: Any) -> Any:
        return args[0]

    def _one_hot(self, func: Any, args: Any, kwargs: Any) -> Any:
        """As on a card; for a subclass of tensors it would compare with all classes."""
        chosen, classes = (*args, *kwargs.values(), -1)[:2]
        if chosen.device.type != "cuda" or classes < 1:
            return func(*args, **kwargs)
        made = torch.zeros((*chosen.shape, classes), dtype=torch.int64, device=_CARD)
        made.scatter_(-1, chosen.unsqueeze(-1), 1)
        say_share(made, 1 / classes)
        return made

    def _attention(self, func: Any, args: Any, kwargs: Any) -> Any:
        if args[0].device.type != "cuda":
            return func(*args, **kwargs)
        return attention(self._capability, *args, **kwargs)


@contextmanager
def own_attention(capability: tuple[int, int]) -> Iterator[None]:
    """Inside, functions of `torch.nn.functional` find it, which a function mode does not follow."""
    original = torch.nn.functional.scaled_dot_product_attention

    def called(query: Any, *args: Any, **kwargs: Any) -> Any:
        if query.device.type != "cuda":
            return original(query, *args, **kwargs)
        return attention(capability, query, *args, **kwargs)

    with mock.patch.object(torch.nn.functional, "scaled_dot_product_attention", called):
        yield


_RULES: dict[Any, Callable[[CardFunctionMode, Any, Any, Any], Any]] = {
    torch.Tensor.to: CardFunctionMode._to,
    torch.Tensor.cuda: CardFunctionMode._cuda,
    torch.Tensor.pin_memory: CardFunctionMode._pinned,
    torch._C._nn.one_hot: CardFunctionMode._one_hot,
    torch._C._nn.scaled_dot_product_attention: CardFunctionMode._attention,
}


def _numbered(value: Any) -> Any:
    """The card, where a device without a number is meant."""
    if isinstance(value, str) and value.split(":")[0] == "cuda":
        return _CARD
    if isinstance(value, torch.device) and value.type == "cuda":
        return _CARD
    return value


def _is_meta(value: Any) -> bool:
    return (isinstance(value, str) and value == "meta") or (
        isinstance(value, torch.device) and value.type == "meta"
    )
