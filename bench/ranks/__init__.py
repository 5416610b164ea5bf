"""Programs of many ranks, of which `fakecuda_ranks.py` measures one on the stub.

A fake process group stands for the other ranks: collectives return at once and move no data.
"""

NAMES = (
    "ddp",
    "fsdp2",
    "fsdp2_recompute",
    "fsdp2_meta",
    "tensor_parallel",
    "pipeline",
)

TITLES = {
    "ddp": "DDP",
    "fsdp2": "FSDP2",
    "fsdp2_recompute": "FSDP2, recomputation",
    "fsdp2_meta": "FSDP2, sharded on the meta device",
    "tensor_parallel": "tensor parallel by up to 8, FSDP2 beyond",
    "pipeline": "pipeline of up to 8 stages (1F1B), FSDP2 beyond",
}

WORLDS = (2, 8, 64, 512)
