"""Programs that request blocks by their mebibytes, all served from pages."""

import pytest
import torch

from tests.fakecuda.programs import ROOT, run_program

MIB = 1 << 20

newer = pytest.mark.skipif(
    not hasattr(getattr(torch, "accelerator", None), "memory_stats"), reason="PyTorch is older"
)
"""Marks tests of functions of any accelerator."""

BEGIN = """
import json, os, pgmo, torch
from tests.fakecuda.control import driver_calls, hold, peak, release, used, violations
torch.cuda.memory.change_current_allocator(pgmo.torch_allocator())
MIB = 1 << 20
def block(mib):
    return torch.empty(int(mib * MIB), dtype=torch.uint8, device="cuda")
def tell(*what):
    print(json.dumps(what))
"""


def run(code: str, **environment: str) -> list:
    """What a program tells at its end: `code`, with `block`, `tell` and the stub's controls."""
    return run_program(BEGIN + code, PYTHONPATH=str(ROOT), **environment)
