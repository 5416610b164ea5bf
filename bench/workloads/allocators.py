"""Installation of pgmo's pages. PyTorch is imported only if a contender needs them."""

from workloads.job import PAGES_FIRST


def install_pages(contender: str) -> None:
    """Serve this process from pages if the contender begins with pages.

    Call it before CUDA is initialized.
    """
    if contender not in PAGES_FIRST:
        return
    import torch

    import pgmo

    torch.cuda.memory.change_current_allocator(pgmo.torch_allocator())
