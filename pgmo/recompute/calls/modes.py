"""PyTorch's settings that affect a forward pass. Each combination needs a capture of its own."""

from collections.abc import Callable

import torch

_ATTENTION = (
    "flash_sdp_enabled",
    "mem_efficient_sdp_enabled",
    "math_sdp_enabled",
    "cudnn_sdp_enabled",
    "fp16_bf16_reduction_math_sdp_allowed",
)

_INNER = (
    "_get_sdp_priority_order",
    "_get_cudnn_enabled",
    "_get_cudnn_deterministic",
    "_get_mkldnn_enabled",
    "_get_mkldnn_deterministic",
    "_get_deterministic_algorithms",
    "_get_deterministic_algorithms_warn_only",
)


def modes() -> tuple[object, ...]:
    """Return the default dtype, autocast's state, and the settings of `kernels`."""
    return (
        torch.get_default_dtype(),
        *kernels(),
        tuple(
            (torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind))
            for kind in ("cpu", "cuda")
        ),
    )


def kernels() -> tuple[str, ...]:
    """Return the settings by which PyTorch chooses kernels, and the default device.

    The settings concern attention, cuDNN, oneDNN and determinism. Dynamo guards only some of them.
    """
    return tuple(str(read()) for read in _readers)


def _existing() -> list[Callable[[], object]]:
    found = [getattr(torch.backends.cuda, name, None) for name in _ATTENTION]
    found += [getattr(torch._C, name, None) for name in _INNER]
    return [torch.get_default_device, *(read for read in found if read is not None)]


_readers = _existing()
