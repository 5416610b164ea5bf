"""Installation of pgmo's pages. PyTorch is imported only if a contender needs them."""

from collections.abc import Container

from workloads.job import PAGES_FIRST


def install_pages(contender: str, ours: Container[str] = PAGES_FIRST) -> None:
    """Serve this process from pages if the contender is one of `ours`.

    Call it before CUDA is initialized.
    """
    if contender not in ours:
        return
    import torch

    import pgmo

    torch.cuda.memory.change_current_allocator(pgmo.torch_allocator())
