"""Settings of PyTorch that affect a forward pass; each combination is captured separately."""

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
    """Return the settings that change only if the program enters a context or sets an option.

    They concern attention kernels, cuDNN, oneDNN, determinism, default type and device, and
    autocast.
    """
    return (
        torch.get_default_dtype(),
        *kernels(),
        tuple(
            (torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind))
            for kind in ("cpu", "cuda")
        ),
    )


def kernels() -> tuple[str, ...]:
    """Return the settings by which PyTorch chooses kernels; Dynamo guards only some of them."""
    return tuple(str(read()) for read in _readers)


def _existing() -> list[Callable[[], object]]:
    """Return the functions that read settings and exist in this version of PyTorch."""
    found = [getattr(torch.backends.cuda, name, None) for name in _ATTENTION]
    found += [getattr(torch._C, name, None) for name in _INNER]
    return [torch.get_default_device, *(read for read in found if read is not None)]


_readers = _existing()
