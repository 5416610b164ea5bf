"""Settings of PyTorch's allocator that cost memory."""

import torch

from faulty import program
from faulty.models import WORDS, Model, cross_entropy


@program("A setting of the allocator costs memory", "pytorch/pytorch#113481", reserved=True)
def large_blocks_unsplit(fixed: bool) -> None:
    """Forbid that large free blocks are split, so each serves only requests of about its size."""
    if not fixed:
        torch.cuda.memory._set_allocator_settings("max_split_size_mb:32")
    model = Model().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for length in (1024, 704, 896, 512, 768, 608, 960, 640, 832, 544, 736, 864):
        ids = torch.randint(WORDS, (8, length), device="cuda")
        cross_entropy(model, ids).backward()
        optimizer.step()
        optimizer.zero_grad()
