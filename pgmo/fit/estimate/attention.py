"""Scaled dot-product attention as a CUDA build would run it, chosen by compute capability.

PyTorch chooses among its kernels in C++, by a table that a CPU build does not have. Source of the
rules: aten/src/ATen/native/transformers/cuda/sdp_utils.cpp of PyTorch 2.11, without cuDNN's kernel.
"""

from typing import Any

import torch

_HALVES = (torch.float16, torch.bfloat16)
_MOST_FLASH = 256
"""Elements of a head: flash attention has no kernel for more."""


def attention(
    capability: tuple[int, int],
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Calls the kernel that PyTorch would choose on a card.

    Args:
        capability: of the card.
        query: shape (..., heads, length, features).
        key: likewise, of another length.
        value: as `key`, with other features.
        attn_mask: truth values or what is added to the scores, broadcast to them.
        dropout_p: share of weights that is dropped.
        is_causal: whether later positions are hidden.
        scale: of the scores.
        enable_gqa: whether several heads of the query share one of the key.

    Returns:
        As PyTorch's.
    """
    if attn_mask is not None and attn_mask.dtype is torch.bool:
        attn_mask = _added(attn_mask, query.dtype)
    chosen = choice(capability, query, key, value, attn_mask, dropout_p, is_causal, enable_gqa)
    aten = torch.ops.aten
    if chosen == "flash":
        features = query.shape[-1]
        scale = features**-0.5 if scale is None else scale
        padded = [_padded(one) for one in (query, key, value)]
        out = aten._scaled_dot_product_flash_attention(
            *padded, dropout_p, is_causal, False, scale=scale
        )[0]
        return out if out.shape[-1] == features else out[..., :features]
    if chosen == "efficient":
        needed = torch.is_grad_enabled() and any(
            one.requires_grad for one in (query, key, value, attn_mask) if one is not None
        )
        if attn_mask is not None:
            attn_mask = _bias(attn_mask, query, key)
        return aten._scaled_dot_product_efficient_attention(
            query, key, value, attn_mask, needed, dropout_p, is_causal, scale=scale
        )[0]
    return of_plain_operators(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )


def of_plain_operators(*args: Any, **kwargs: Any) -> Any:
    """Runs it as products, a sum and a softmax, which C++ code calls one after the other."""
    return torch.ops.aten._scaled_dot_product_attention_math(*args, **kwargs)[0]


def choice(
    capability: tuple[int, int],
    query: Any,
    key: Any,
    value: Any,
    mask: Any,
    dropout: float,
    causal: bool,
    grouped: bool,
) -> str:
    """Which kernel that is: "flash", "efficient" or "math".

    Example:
        >>> q = torch.zeros(1, 8, 16, 64, dtype=torch.float16)
        >>> choice((8, 0), q, q, q, None, 0.0, True, False)
        'flash'
        >>> choice((8, 0), q.float(), q.float(), q.float(), None, 0.0, True, False)
        'efficient'
    """
    backends: Any = torch.backends.cuda
    if query.dim() != 4 or key.dim() != 4 or value.dim() != 4:
        return "math"
    if not query.dtype == key.dtype == value.dtype:
        return "math"
    if 0 in query.shape or 0 in key.shape or any(x.stride(-1) != 1 for x in (query, key, value)):
        return "math"
    heads, same = query.shape[1], query.shape[0] == key.shape[0] == value.shape[0]
    alike = key.shape[1] == value.shape[1]
    if not same:
        return "math"
    features = query.shape[-1]
    if (
        backends.flash_sdp_enabled()
        and capability >= (8, 0)
        and query.dtype in _HALVES
        and mask is None
        and features == key.shape[-1] == value.shape[-1] <= _MOST_FLASH
        and ((key.shape[1] == heads and alike) or (grouped and alike and heads % key.shape[1] == 0))
        and not (causal and query.shape[-2] != key.shape[-2])
        and not (
            query.requires_grad and features > 192 and dropout > 0 and capability in _SMALL_SHARED
        )
    ):
        return "flash"
    if (
        backends.mem_efficient_sdp_enabled()
        and capability >= (5, 0)
        and query.dtype in ((*_HALVES, torch.float32) if capability >= (8, 0) else _OLDER)
        and key.shape[1] == value.shape[1] == heads
        and features == key.shape[-1]
        and features % _alignment(query.dtype, capability) == 0
        and value.shape[-1] % _alignment(query.dtype, capability) == 0
        and features > 0
    ):
        return "efficient"
    return "math"


_SMALL_SHARED = ((8, 6), (8, 7), (8, 9))
_OLDER = (torch.float16, torch.float32)


def _alignment(dtype: torch.dtype, capability: tuple[int, int]) -> int:
    """Elements that the features of a head must be a multiple of, for the tensor cores."""
    if capability >= (8, 0):
        return 16 // (torch.finfo(dtype).bits // 8)
    if capability >= (7, 0) and dtype in _HALVES:
        return 8
    return 1


def _padded(tensor: Any) -> Any:
    """Flash attention wants multiples of 8 features."""
    lacking = -tensor.shape[-1] % 8
    return torch.nn.functional.pad(tensor, (0, lacking)) if lacking else tensor


def _added(mask: Any, dtype: torch.dtype) -> Any:
    """Truth values as what is added to the scores."""
    hidden = torch.full((), float("-inf"), dtype=dtype, device=mask.device)
    return torch.where(mask, 0.0, hidden)


def _bias(mask: Any, query: Any, key: Any) -> Any:
    """A mask as what is added to the scores, in rows of which each begins at 16 bytes."""
    if mask.stride(-1) != 1 or any(stride % 8 for stride in mask.stride()[:-1]):
        length = mask.shape[-1]
        mask = torch.nn.functional.pad(mask, (0, 8 - length % 8))[..., :length]
    return mask.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
