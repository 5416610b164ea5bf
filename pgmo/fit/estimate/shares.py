"""What share of a mask is true, where the operators that made it tell.

    choices of 8 experts     topk over 8, argmax over 8: numbers below 8
    numbers == 3             one of 8 is true
    rand(n) < 0.15           15 of 100 are true
    mask.nonzero()           so many rows

Every choice is taken to be equally likely, as a router is trained to make it.
"""

from collections.abc import Callable
from typing import Any

import torch

_aten = torch.ops.aten
_BELOW, _SHARE, _EVEN = "_pgmo_below", "_pgmo_share", "_pgmo_even"
"""Attributes of tensors: numbers below this; this share is not zero; evenly between 0 and 1.

Each comes with the version that its memory had: whoever writes there, through whatever view, has
it another one.
"""

Rule = Callable[[Any, Any, Any], None]


def note(func: Any, args: Any, kwargs: Any, out: Any) -> None:
    """Remembers what an operator's result holds, where that is known.

    Args:
        func: the operator.
        args: of it.
        kwargs: of it.
        out: its result.
    """
    rule = RULES.get(func)
    if rule is not None:
        rule(args, kwargs, out)


def share_of(mask: Any) -> float | None:
    """The share of elements that are not zero; None where nobody knows.

    Args:
        mask: a tensor that `note` may have seen being made.
    """
    share: float | None = _get(mask, _SHARE)
    return share


def say_share(mask: Any, share: float) -> None:
    """Says that a share of elements is not zero."""
    _set(mask, _SHARE, min(1.0, max(0.0, share)))


def _set(tensor: Any, name: str, value: Any) -> None:
    setattr(tensor, name, (value, tensor._version))


def _get(tensor: Any, name: str) -> Any:
    value, version = getattr(tensor, name, (None, 0))
    return value if value is not None and tensor._version == version else None


def _top(args: Any, kwargs: Any, out: Any) -> None:
    at = args[2] if len(args) > 2 else kwargs.get("dim", -1)
    if args[0].dim():
        _set(out[1], _BELOW, args[0].shape[at])


def _position(args: Any, kwargs: Any, out: Any) -> None:
    at = args[1] if len(args) > 1 else kwargs.get("dim")
    if args[0].dim():
        _set(out, _BELOW, args[0].numel() if at is None else args[0].shape[at])


def _position_of_two(args: Any, kwargs: Any, out: Any) -> None:
    at = args[1] if len(args) > 1 else kwargs["dim"]
    if args[0].dim():
        _set(out[1], _BELOW, args[0].shape[at])


def _drawn(args: Any, _kwargs: Any, out: Any) -> None:
    _set(out, _BELOW, args[0])


def _drawn_between(args: Any, _kwargs: Any, out: Any) -> None:
    if args[0] == 0:
        _set(out, _BELOW, args[1])


def _uniform(_args: Any, _kwargs: Any, out: Any) -> None:
    _set(out, _EVEN, True)


def _equal(args: Any, _kwargs: Any, out: Any) -> None:
    below = next(filter(None, (_get(one, _BELOW) for one in args[:2])), None)
    if below:
        say_share(out, 1 / below)


def _unequal(args: Any, kwargs: Any, out: Any) -> None:
    _equal(args, kwargs, out)
    _inverted_in_place(out)


def _less(args: Any, _kwargs: Any, out: Any) -> None:
    if _get(args[0], _EVEN) and isinstance(args[1], (int, float)):
        say_share(out, float(args[1]))


def _more(args: Any, kwargs: Any, out: Any) -> None:
    _less(args, kwargs, out)
    _inverted_in_place(out)


def _inverted_in_place(out: Any) -> None:
    share = share_of(out)
    if share is not None:
        say_share(out, 1 - share)


def _same(args: Any, _kwargs: Any, out: Any) -> None:
    given = args[0]
    for name in (_BELOW, _SHARE):
        known = _get(given, name)
        if known is None:
            continue
        for one in out if isinstance(out, (tuple, list)) else [out]:
            # A view counts the writes to its base, as soon as it has been returned.
            shared = one.untyped_storage()._cdata == given.untyped_storage()._cdata
            setattr(one, name, (known, given._version if shared else one._version))


def _inverted(args: Any, kwargs: Any, out: Any) -> None:
    _same(args, kwargs, out)
    _inverted_in_place(out)


def _and(args: Any, _kwargs: Any, out: Any) -> None:
    shares = [share_of(one) for one in args[:2]]
    if shares[0] is not None and shares[1] is not None:
        say_share(out, shares[0] * shares[1])


def _or(args: Any, _kwargs: Any, out: Any) -> None:
    shares = [share_of(one) for one in args[:2]]
    if shares[0] is not None and shares[1] is not None:
        say_share(out, 1 - (1 - shares[0]) * (1 - shares[1]))


def _any_of(args: Any, kwargs: Any, out: Any) -> None:
    share = share_of(args[0])
    if share is not None and out.numel():
        say_share(out, 1 - (1 - share) ** (args[0].numel() // out.numel()))


RULES: dict[Any, Rule] = {
    _aten.topk.default: _top,
    _aten.argmax.default: _position,
    _aten.argmin.default: _position,
    _aten.max.dim: _position_of_two,
    _aten.min.dim: _position_of_two,
    _aten.multinomial.default: lambda args, _, out: _set(out, _BELOW, args[0].shape[-1]),
    _aten.randint.default: _drawn,
    _aten.randint.low: _drawn_between,
    _aten.rand.default: _uniform,
    _aten.rand_like.default: _uniform,
    _aten.eq.Scalar: _equal,
    _aten.eq.Tensor: _equal,
    _aten.ne.Scalar: _unequal,
    _aten.lt.Scalar: _less,
    _aten.le.Scalar: _less,
    _aten.gt.Scalar: _more,
    _aten.ge.Scalar: _more,
    _aten.logical_not.default: _inverted,
    _aten.bitwise_not.default: _inverted,
    _aten.bitwise_and.Tensor: _and,
    _aten.logical_and.default: _and,
    _aten.bitwise_or.Tensor: _or,
    _aten.logical_or.default: _or,
    _aten.any.dim: _any_of,
    **dict.fromkeys(
        (
            _aten.view.default,
            _aten._unsafe_view.default,
            _aten.permute.default,
            _aten.transpose.int,
            _aten.t.default,
            _aten.unsqueeze.default,
            _aten.squeeze.default,
            _aten.squeeze.dim,
            _aten.expand.default,
            _aten.select.int,
            _aten.slice.Tensor,
            _aten.unbind.int,
            _aten.split.Tensor,
            _aten.clone.default,
            _aten.alias.default,
            _aten.detach.default,
            _aten._to_copy.default,
        ),
        _same,
    ),
}
