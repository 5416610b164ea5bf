from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from pgmo.errors import OptionError
from pgmo.recompute.planners.budget import Share, parse_budget


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("1 KiB", 1024),
        ("8.5 KiB", 8704),
        (1024, 1024),
        ("1024", 1024),
        (np.int64(1024), 1024),
        (np.array(1024), 1024),
        ("60%", Share(0.6)),
        (" 60 % ", Share(0.6)),
        (0.25, Share(0.25)),
        (np.float64(0.25), Share(0.25)),
        (np.float32(0.25), Share(0.25)),
        (np.array(0.5), Share(0.5)),
        (Decimal("0.5"), Share(0.5)),
        (Fraction(1, 2), Share(0.5)),
        ("0.5", Share(0.5)),
        (" 5e-1 ", Share(0.5)),
        ("1.0", Share(1.0)),
        ("min", "min"),
        (" min ", "min"),
        (None, None),
    ],
)
def test_budgets_as_users_write_them(written, read):
    assert parse_budget(written) == read


@pytest.mark.parametrize(
    "wrong",
    [
        *("0%", "101%", "x%", "1.5", "1e9", "nan", "-0.5"),
        *(0.0, 1.5, -0.5, float("nan"), True, -1, [], 1j, np.array([0.5]), np.True_),
    ],
)
def test_invalid_budgets_are_refused(wrong):
    with pytest.raises(OptionError):
        parse_budget(wrong)


def test_tensors_of_one_number():
    torch = pytest.importorskip("torch")
    assert parse_budget(torch.tensor(0.5)) == Share(0.5)
    assert parse_budget(torch.tensor(1024)) == 1024
    for wrong in (torch.ones(1) / 2, torch.tensor(True), torch.empty((), device="meta")):
        with pytest.raises(OptionError):
            parse_budget(wrong)
