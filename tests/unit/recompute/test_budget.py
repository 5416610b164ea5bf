import numpy as np
import pytest

from pgmo.errors import BudgetError, OptionError
from pgmo.recompute.budget import Share, parse_budget


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("1 KiB", 1024),
        (1024, 1024),
        (np.int64(1024), 1024),
        ("60%", Share(0.6)),
        (" 60 % ", Share(0.6)),
        (0.25, Share(0.25)),
        (np.float64(0.25), Share(0.25)),
        ("min", "min"),
        (None, None),
    ],
)
def test_budgets_as_users_write_them(written, read):
    assert parse_budget(written) == read


@pytest.mark.parametrize("wrong", ["0%", "101%", 0.0, 1.5, -0.5, float("nan"), True, -1, "x%", []])
def test_what_is_no_budget(wrong):
    with pytest.raises(OptionError):
        parse_budget(wrong)


def test_what_is_there_before_counts_if_it_is_named():
    assert parse_budget(1000, resident=300) == 700
    assert parse_budget("50%", resident=300).of(1000) == 350
    with pytest.raises(BudgetError, match="alone take 300 B"):
        parse_budget(299, resident=300)
    with pytest.raises(BudgetError, match="alone take 300 B"):
        parse_budget("10%", resident=300).of(1000)
