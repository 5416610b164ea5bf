import copy
import math
import warnings

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import pgmo  # noqa: E402
from pgmo.recompute.runtime.dispatch import VARIANTS  # noqa: E402
from tests.unit.recompute.steps import same, step  # noqa: E402

X = torch.randn(32, 16)


class Reads(nn.Module):
    """Its loss depends on a value of a tensor, which Python code reads."""

    def __init__(self, read):
        super().__init__()
        self.read = read
        self.body = nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.Dropout(), nn.Tanh())
        self.calls = 0

    def forward(self, x, mask):
        return (self.body(x) * self.read(x, mask)).square().mean()


READS = {
    "branch": lambda x, mask: 1.0 if mask.all() else 2.0,
    "number": lambda x, mask: mask.sum().item() + 1,
    "equal": lambda x, mask: 3.0 if torch.equal(mask, torch.ones_like(mask)) else 2.0,
    "list": lambda x, mask: sum(mask.long().tolist()) + 1.0,
    "rows": lambda x, mask: mask.nonzero().shape[0] + 1.0,
    "selected": lambda x, mask: x[mask].square().sum() + 1.0,
    "masked select": lambda x, mask: x.masked_select(mask[:, None]).sum() + 1.0,
    "repeated": lambda x, mask: x.repeat_interleave(mask.long() + 1, dim=0).mean() + 1.0,
}


def masks(count):
    """As many different ones."""
    return [torch.arange(32) > index for index in range(-1, count - 1)]


@pytest.mark.parametrize("read", READS)
def test_values_that_change_are_noticed_before_anything_is_written(read):
    plain = Reads(READS[read])
    other = copy.deepcopy(plain)
    model, _ = pgmo.recompute(other, (X, masks(1)[0]), budget="min", measure=False)
    for seed, mask in enumerate([*masks(3), *masks(3)]):
        expected = step(plain, X, mask, seed=seed)
        assert same(step(model, X, mask, seed=seed), expected)
    (variants,) = model.forward.calls.values()
    assert len(variants) == (2 if read in ("branch", "equal") else 3)


def test_looking_at_a_forward_pass_leaves_no_trace():
    plain = Reads(READS["branch"])
    before = copy.deepcopy(plain.state_dict())
    versions = [one._version for one in (*plain.parameters(), *plain.buffers())]
    torch.manual_seed(0)
    drawn = torch.get_rng_state()
    pgmo.recompute(plain, (X, masks(1)[0]), budget="min", measure=False)
    assert torch.equal(torch.get_rng_state(), drawn)
    assert versions == [one._version for one in (*plain.parameters(), *plain.buffers())]
    assert all(torch.equal(one, before[name]) for name, one in plain.state_dict().items())


def test_of_too_many_values_the_model_runs_as_it_is():
    plain = Reads(READS["number"])
    other = copy.deepcopy(plain)
    model, _ = pgmo.recompute(other, (X, masks(1)[0]), budget="min", measure=False, whole=True)
    with pytest.warns(UserWarning, match=r"without recomputation.*read at .*test_values\.py"):
        for seed, mask in enumerate(masks(VARIANTS + 2)):
            expected = step(plain, X, mask, seed=seed)
            assert same(step(model, X, mask, seed=seed), expected)
    (variants,) = model.forward.calls.values()
    assert len(variants) == VARIANTS


def test_of_too_many_values_what_reads_none_of_them_is_captured_by_itself():
    plain = Reads(READS["number"])
    other = copy.deepcopy(plain)
    model, _ = pgmo.recompute(other, (X, masks(1)[0]), budget="min", measure=False)
    with pytest.warns(
        UserWarning, match=r"no single graph: a value is .*read at .*test_values\.py"
    ):
        for seed, mask in enumerate(masks(VARIANTS + 2)):
            expected = step(plain, X, mask, seed=seed)
            assert same(step(model, X, mask, seed=seed), expected)
    ((divided,),) = model.forward.calls.values()
    assert divided.planned.parts == ("body",)


def test_what_is_not_a_number_is_itself():
    class Checks(nn.Linear):
        def forward(self, x):
            y = super().forward(x)
            return y.sum() if math.isnan(x.sum().item()) else y.mean()

    model, _ = pgmo.recompute(Checks(16, 16), X * math.nan, measure=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(X * math.nan)
        model(X * math.nan)
    (variants,) = model.forward.calls.values()
    assert len(variants) == 1


def test_one_that_writes_into_a_parameter_and_reads_values_is_refused():
    class Normalises(nn.Linear):
        def forward(self, x):
            with torch.no_grad():
                self.weight.div_(self.weight.norm().item())
            return super().forward(x).mean()

    plain = Normalises(16, 16)
    before = plain.weight.detach().clone()
    with pytest.raises(
        pgmo.errors.GraphError, match=r"writes into a parameter, at .*test_values\.py"
    ):
        pgmo.recompute(plain, X)
    assert torch.equal(plain.weight, before)


def test_one_that_is_indexed_by_two_masks_at_once_is_refused():
    """One count would be compared, and the other mask might have another."""

    class Indexed(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Linear(16, 16)

        def forward(self, x, rows, columns):
            return self.body(x)[rows, columns].sum()

    masks = torch.arange(32) < 4, torch.arange(16) < 4
    with pytest.raises(pgmo.errors.GraphError, match="2 masks at once"):
        pgmo.recompute(Indexed(), (X, *masks))
