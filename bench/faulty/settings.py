"""Settings of PyTorch's allocator that cost memory."""

import torch

from faulty import program
from faulty.models import Model, cross_entropy, train


@program("A setting of the allocator costs memory", "pytorch/pytorch#113481", reserved=True)
def large_blocks_unsplit(fixed: bool) -> None:
    """Forbid that large free blocks are split, so each serves only requests of about its size."""
    if not fixed:
        torch.cuda.memory._set_allocator_settings("max_split_size_mb:32")
    model = Model().cuda()
    for length in (1024, 704, 896, 512, 768, 608, 960, 640, 832, 544, 736, 864):
        train(model, count=1, length=length, loss=cross_entropy)
