"""Tests that Python code reads values of the current step's tensors in every step."""

import copy

import pytest
import torch
from torch import nn

import pgmo
from tests.unit.recompute.steps import same, step

pytestmark = pytest.mark.filterwarnings("ignore:the forward pass is not a single graph")

X = torch.linspace(-1, 1, 32 * 16).reshape(32, 16)


class Reads(nn.Module):
    """A model whose loss depends on a tensor's value that Python code reads."""

    def __init__(self, read):
        super().__init__()
        self.read = read
        self.body = nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.Dropout(), nn.Tanh())

    def forward(self, x, mask):
        return (self.body(x) * self.read(x, mask)).square().mean()


READS = {
    "branch": lambda x, mask: 1.0 if mask.all() else 2.0,
    "number": lambda x, mask: mask.sum().item() + 1,
    "equal": lambda x, mask: 3.0 if torch.equal(mask, torch.ones_like(mask)) else 2.0,
    "list": lambda x, mask: sum(mask.long().tolist()) + 1.0,
    "rows": lambda x, mask: mask.nonzero().shape[0] + 1.0,
    "selected": lambda x, mask: x[mask].square().sum() + 1.0,
    "two masks": lambda x, mask: x[:16][mask[:16], mask[:16]].sum() + 1.0,
    "masked select": lambda x, mask: x.masked_select(mask[:, None]).sum() + 1.0,
    "repeated": lambda x, mask: x.repeat_interleave(mask.long() + 1, dim=0).mean() + 1.0,
    "unique": lambda x, mask: x[mask.unique().numel() :].mean() + 1.0,
    "not a number": lambda x, mask: (mask.sum() * torch.nan).item() == 0 or 1.0,
}


@pytest.mark.parametrize("read", READS)
def test_values_may_change_from_step_to_step(read):
    plain = Reads(READS[read])
    masks = [torch.arange(32) > index for index in range(-1, 2)]
    model, _ = pgmo.recompute(copy.deepcopy(plain), (X, masks[0]), measure=False)
    for seed, mask in enumerate([*masks, *masks]):
        assert same(step(model, X, mask, seed=seed), step(plain, X, mask, seed=seed))
