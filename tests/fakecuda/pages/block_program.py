"""Programs that request blocks of a number of MiB, all served from pages."""

import pytest
import torch

from tests.fakecuda.programs import run_program

MIB = 1 << 20

newer = pytest.mark.skipif(
    not hasattr(getattr(torch, "accelerator", None), "memory_stats"), reason="PyTorch is older"
)
"""Mark of tests that use PyTorch's functions for any accelerator."""

PLAIN = """
import json, os, pgmo, torch
from tests.fakecuda.control import driver_calls, hold, peak, release, used, violations
MIB = 1 << 20
def block(mib):
    return torch.empty(int(mib * MIB), dtype=torch.uint8, device="cuda")
def report(*what):
    print(json.dumps(what))
"""
"""Definitions of `block` and `report`, and the stub's controls. pgmo serves no request."""

BEGIN = f"{PLAIN}\ntorch.cuda.memory.change_current_allocator(pgmo.torch_allocator())\n"
"""`PLAIN`, and then pages serve all requests."""


def run(code: str, *, begin: str = BEGIN, **environment: str) -> list:
    """Run `code` with `block`, `report` and the stub's controls; return what it reports."""
    return run_program(begin + code, **environment)
