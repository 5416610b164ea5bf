"""Whether there is a GPU to test on, and whether it computes anything.

Over the stub runtime of pgmo/rehearsal (`PGMO_FAKECUDA` is set) memory is real and values are
garbage: the same programs run, and nothing is compared.
"""

import importlib.util
import os

STUB = bool(os.environ.get("PGMO_FAKECUDA"))

# Whether what pgmo serves lies in pages; `make gpu-check` runs some tests both ways.
PAGES = os.environ.get("PGMO_PAGES", "1") != "0"

# cuBLAS is deterministic only with a workspace of its own per stream, chosen before it starts.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


def why_not() -> str:
    """Why nothing can be tested here; empty when there is a CUDA device."""
    if importlib.util.find_spec("torch") is None:
        return "PyTorch is not installed"
    import torch

    if torch.version.cuda is None:
        return f"PyTorch {torch.__version__} is built without CUDA"
    if not torch.cuda.is_available():
        return "there is no CUDA device"
    return ""


def why_not_cupy() -> str:
    """Why CuPy cannot be tested here; empty when it finds a CUDA device."""
    if STUB:
        return "CuPy does not run on the stub"
    if importlib.util.find_spec("cupy") is None:
        return "CuPy is not installed"
    try:
        import cupy

        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # whatever the driver says, or a library that is missing
        return f"CuPy finds no CUDA device: {error}"
    return "" if count else "there is no CUDA device"


def make_deterministic() -> None:
    """Makes the same program compute the same bits each time, as far as torch can."""
    import torch

    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
    torch.backends.cuda.enable_cudnn_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    if STUB:
        torch.backends.cudnn.enabled = False
