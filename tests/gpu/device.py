"""Checks for a GPU or the stub runtime, and settings for equal bits.

On the stub runtime of pgmo/rehearsal, which `PGMO_FAKECUDA` names, kernels compute nothing. The
same programs run there, but their values are not compared.
"""

import importlib.util
import os

STUB = bool(os.environ.get("PGMO_FAKECUDA"))

# Whether pgmo serves from pages; `make gpu-check` runs some tests with and without.
PAGES = os.environ.get("PGMO_PAGES", "1") != "0"

# cuBLAS is deterministic only with a workspace for each stream, set before it is loaded.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


def why_not() -> str:
    """Return why PyTorch has no CUDA device, or "" if it has one."""
    if importlib.util.find_spec("torch") is None:
        return "PyTorch is not installed"
    import torch

    if torch.version.cuda is None:
        return f"PyTorch {torch.__version__} is built without CUDA"
    if not torch.cuda.is_available():
        return "there is no CUDA device"
    return ""


def why_not_cupy() -> str:
    """Return why CuPy cannot be tested, or "" if it can."""
    if STUB:
        return "CuPy does not run on the stub"
    if importlib.util.find_spec("cupy") is None:
        return "CuPy is not installed"
    try:
        import cupy

        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # an error of the driver, or a missing library
        return f"CuPy finds no CUDA device: {error}"
    return "" if count else "there is no CUDA device"


def make_deterministic() -> None:
    """Let a program compute the same bits in each run, as far as PyTorch can."""
    import torch

    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
    torch.backends.cuda.enable_cudnn_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    if STUB:
        torch.backends.cudnn.enabled = False
