"""Installs what serves a contender's process. PyTorch is imported when it is needed."""

from workloads.job import PAGES_FIRST


def install_pages(contender: str) -> None:
    """Serves the process from pages without a session, where the contender begins so.

    Call it before CUDA is initialized.
    """
    if contender not in PAGES_FIRST:
        return
    import torch

    import pgmo

    torch.cuda.memory.change_current_allocator(pgmo.torch_allocator())
